// doctest's main with one option of ours: --seed N runs that seed alone, loudly.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/sim/options.hpp"

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <cstring>

namespace baton::sim {
options& chosen() {
  static options o;
  return o;
}
} // namespace baton::sim

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--seed") == 0) {
      baton::sim::chosen().seed = std::strtoull(argv[i + 1], nullptr, 10);
      spdlog::set_level(spdlog::level::info);
    } else if (std::strcmp(argv[i], "--seeds") == 0) {
      baton::sim::chosen().seeds = std::strtoull(argv[i + 1], nullptr, 10);
    }
  }
  doctest::Context context(argc, argv);
  return context.run();
}
