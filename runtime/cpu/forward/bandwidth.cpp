#include "runtime/cpu/forward/bandwidth.hpp"

#include "runtime/cpu/forward/thread_team.hpp"
#include "runtime/cpu/memory/large_memory.hpp"

#include <chrono>
#include <cstring>
#include <numeric>

namespace baton::cpu {
namespace {

constexpr std::size_t probe_bytes = std::size_t{256} << 20U;
constexpr std::size_t words_per_line = 8;

// Reads one value per cache line, which loads the whole line. Four sums avoid a dependency chain.
std::uint64_t read_lines(const std::uint64_t* begin, const std::uint64_t* end) {
  std::uint64_t sums[4] = {};
  for (; begin + 4 * words_per_line <= end; begin += 4 * words_per_line)
    for (std::size_t i = 0; i < 4; ++i)
      sums[i] += begin[words_per_line * i];
  return std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0});
}

} // namespace

result<std::vector<double>> measure_read_bandwidth(std::uint32_t threads, int rounds) {
  auto memory = large_memory::take(probe_bytes);
  if (!memory)
    return memory.error();
  std::memset(memory->data(), 1, probe_bytes);
  const auto* words = reinterpret_cast<const std::uint64_t*>(memory->data());
  const std::size_t count = probe_bytes / sizeof(std::uint64_t);
  thread_team team(threads, {});
  std::vector<std::uint64_t> sums(threads * words_per_line); // a cache line each
  std::vector<double> measured;
  for (int r = 0; r < rounds; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](unsigned member) {
      sums[member * words_per_line] =
          read_lines(words + count * member / threads, words + count * (member + 1) / threads);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    measured.push_back(static_cast<double>(probe_bytes) / time.count() / 1e9);
  }
  // Uses the sums, so that the reads are not optimised away.
  ENSURE(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) != 0,
         "the memory read is not what was written");
  return measured;
}

} // namespace baton::cpu
