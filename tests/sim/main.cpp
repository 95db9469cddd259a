// doctest's main with more options. `--seed N` runs that seed alone, with logs. `--first N` and
// `--seeds N` choose the seeds of each scenario, `--part I` and `--parts N` every N-th of them.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/sim/options.hpp"

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace baton::sim {
options& chosen() {
  static options o;
  return o;
}
std::uint64_t& running_seed() {
  static std::uint64_t seed = 0;
  return seed;
}
} // namespace baton::sim

namespace {

// A violated invariant ends the process before the test case can report it.
void print_seed(int) {
  if (baton::sim::running_seed() != 0)
    std::fprintf(stderr, "seed := %llu\n",
                 static_cast<unsigned long long>(baton::sim::running_seed()));
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

} // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  auto& chosen = baton::sim::chosen();
  for (int i = 1; i + 1 < argc; ++i) {
    const auto number = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      chosen.seed = number;
      spdlog::set_level(spdlog::level::info);
    } else if (std::strcmp(argv[i], "--first") == 0) {
      chosen.first = number;
    } else if (std::strcmp(argv[i], "--seeds") == 0) {
      chosen.seeds = number;
    } else if (std::strcmp(argv[i], "--part") == 0) {
      chosen.part = number;
    } else if (std::strcmp(argv[i], "--parts") == 0) {
      chosen.parts = std::max<std::uint64_t>(1, number);
    }
  }
  std::signal(SIGABRT, print_seed);
  doctest::Context context(argc, argv);
  return context.run();
}
