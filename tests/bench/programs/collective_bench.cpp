// Sums between ranks: the time of an all-reduce between two processes on one core each, for one row
// and for a megabyte. The machine's limits beside it: the bandwidth between two cores, and the
// latency of a word to the other core and back. One object per line.
#include "runtime/collective/hand_over.hpp"
#include "runtime/collective/shared_collective.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

using namespace baton;
using collective::shared_collective;

namespace {

constexpr std::uint32_t ranks = 2;
constexpr std::size_t megabyte_floats = std::size_t{1} << 18U;
constexpr std::size_t piece_floats = collective::slot_floats;
constexpr std::size_t piece_bytes = piece_floats * sizeof(float);
constexpr int warm_up = 200;

using clock = std::chrono::steady_clock;

// Floats aligned to a cache line, like those of an engine's steps.
class aligned_floats {
public:
  explicit aligned_floats(std::size_t count) : lines_((count + 15) / 16), count_(count) {}
  std::span<float> values() noexcept { return {lines_.front().values, count_}; }

private:
  struct alignas(64) line {
    float values[16];
  };
  std::vector<line> lines_;
  std::size_t count_;
};

double micros_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

// -- The machine's limits --

// Two cache lines that each rank polls, and one memory block per rank, written by that rank alone.
struct shared_bytes {
  struct alignas(256) line {
    std::atomic<std::uint32_t> phase;
  };
  line lines[ranks];
  alignas(4096) float pieces[ranks][piece_floats];
};

void rendezvous(shared_bytes& shared, std::uint32_t rank, std::uint32_t phase) {
  shared.lines[rank].phase.store(phase, std::memory_order_release);
  while (shared.lines[1 - rank].phase.load(std::memory_order_acquire) < phase) {
  }
}

// µs for a word to the other core and back, per round.
std::vector<double> round_trips(shared_bytes& shared, std::uint32_t rank, std::uint32_t& phase,
                                int count) {
  std::vector<double> out;
  for (int i = 0; i < warm_up + count; ++i) {
    const auto begin = clock::now();
    ++phase;
    if (rank == 0)
      shared.lines[0].phase.store(phase, std::memory_order_release);
    while (shared.lines[1 - rank].phase.load(std::memory_order_acquire) < phase) {
    }
    if (rank == 1)
      shared.lines[1].phase.store(phase, std::memory_order_release);
    if (i >= warm_up)
      out.push_back(micros_since(begin));
  }
  return out;
}

// GB/s at which two cores exchange their data, both at once. Each writes a block that the other has
// already read, and then fetches the other's block. This is the minimum for exchanging values;
// nothing is added up here.
std::vector<double> exchanges(shared_bytes& shared, std::uint32_t rank, std::uint32_t& phase,
                              int count) {
  std::vector<double> out;
  aligned_floats given_room(piece_floats), taken_room(piece_floats);
  const auto given = given_room.values(), taken = taken_room.values();
  for (int i = 0; i < warm_up + count; ++i) {
    std::fill(given.begin(), given.end(), static_cast<float>(i));
    const auto begin = clock::now();
    collective::hand_over(given.data(), piece_bytes, shared.pieces[rank]);
    collective::settle();
    rendezvous(shared, rank, ++phase);
    std::memcpy(taken.data(), shared.pieces[1 - rank], piece_bytes);
    const double took = micros_since(begin);
    if (taken[piece_floats / 2] != static_cast<float>(i))
      return {}; // keeps the copy from being removed
    rendezvous(shared, rank, ++phase);
    if (i >= warm_up)
      out.push_back(static_cast<double>(piece_bytes) / took / 1e3);
  }
  return out;
}

// -- Our collective --

// µs of each all-reduce of the given number of floats, from when both ranks have their values;
// empty if one failed. `phase`: number of rank rendezvous so far.
std::vector<double> all_reduces(shared_collective& own, shared_bytes& shared, std::uint32_t& phase,
                                std::size_t floats, int count) {
  aligned_floats room(floats);
  const auto values = room.values();
  std::vector<double> out;
  for (int i = 0; i < warm_up + count; ++i) {
    std::fill(values.begin(), values.end(), 1.0F);
    rendezvous(shared, own.rank(), ++phase);
    const auto begin = clock::now();
    if (!own.all_reduce(values))
      return {};
    if (i >= warm_up)
      out.push_back(micros_since(begin));
  }
  return out;
}

void report(std::string_view row, std::vector<double> values, std::string_view unit) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  fmt::print("{{\"row\":\"{}\",\"value\":{:.3f},\"unit\":\"{}\",\"min\":{:.3f},\"p99\":{:.3f},"
             "\"count\":{}}}\n",
             row, at(0.5), unit, values.front(), at(0.99), values.size());
}

void pin(std::uint32_t core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one); // if this fails, the system chooses the core
}

result<void> measure(std::uint32_t rank, const std::shared_ptr<const collective::group_area>& area,
                     shared_bytes& shared, std::size_t row_floats, int count) {
  pin(rank);
  shared_collective own(rank, ranks, {std::chrono::seconds(10)});
  if (auto ok = own.enter(area); !ok)
    return ok;
  std::uint32_t phase = 0;
  const auto row = all_reduces(own, shared, phase, row_floats, 20 * count);
  const auto megabyte = all_reduces(own, shared, phase, megabyte_floats, count);
  if (row.empty() || megabyte.empty())
    return fail(errc::internal, "an all-reduce failed");
  const auto trips = round_trips(shared, rank, phase, 20 * count);
  const auto exchanged = exchanges(shared, rank, phase, count);
  if (rank > 0)
    return {};
  if (exchanged.empty())
    return fail(errc::internal, "what the other core has written did not come");
  report("all-reduce of a row", row, "us");
  std::vector<double> rates;
  for (const double micros : megabyte)
    rates.push_back(static_cast<double>(megabyte_floats * sizeof(float)) / micros / 1e3);
  report("all-reduce of 1 MB", rates, "GB/s");
  report("a word to the other core and back", trips, "us");
  report("exchanged between the cores", exchanged, "GB/s");
  return {};
}

result<void> run(std::size_t row_floats, int count) {
  const int fd = memfd_create("ranks", MFD_CLOEXEC);
  auto memory = collective::group_memory::create(fd, ranks);
  if (!memory)
    return memory.error();
  if (auto ok = memory->open_epoch({1}); !ok)
    return ok;
  auto area = memory->area_of({1});
  if (!area)
    return area.error();
  void* mapped = mmap(nullptr, sizeof(shared_bytes), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return fail(errc::io_failed, "no memory to share");
  auto& shared = *static_cast<shared_bytes*>(mapped);
  const auto other = fork();
  if (other < 0)
    return fail(errc::io_failed, "fork failed");
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(measure(1, *area, shared, row_floats, count) ? 0 : 1);
  }
  auto outcome = measure(0, *area, shared, row_floats, count);
  int status = 0;
  waitpid(other, &status, 0);
  if (outcome && status != 0)
    return fail(errc::internal, "the other rank failed");
  return outcome;
}

} // namespace

// collective_bench [FLOATS OF A ROW] [COUNT]
int main(int argc, char** argv) {
  std::size_t row_floats = 576;
  int count = 500;
  const auto number = [&](int index, auto& to) {
    if (argc <= index)
      return true;
    const std::string_view text(argv[index]);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), to);
    return code == std::errc{} && end == text.data() + text.size() && to > 0;
  };
  if (argc > 3 || !number(1, row_floats) || !number(2, count) || row_floats > megabyte_floats) {
    fmt::print(stderr, "collective_bench [FLOATS OF A ROW] [COUNT]\n");
    return 2;
  }
  if (const auto ok = run(row_floats, count); !ok) {
    fmt::print(stderr, "collective_bench: {}\n", ok.error().message);
    return 1;
  }
  return 0;
}
