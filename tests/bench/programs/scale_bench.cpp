// How far one head, one root and one link owner scale: the real scheduler, supervisor and
// membership code over simulated shards. Prints rows for ./check scale (scale.py,
// docs/develop/scale.md).
#include "tests/bench/programs/scale.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace baton::bench {

double quantile(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

std::size_t bytes_in_use() {
  const auto all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

void report(const scale_options& o, const std::string& row, std::vector<double> rounds,
            std::string_view unit, double bar, bar_is side) {
  const double value = median(rounds);
  const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
  const bool ok = bar == 0 || (side == bar_is::at_most ? value <= bar : value >= bar);
  if (o.json)
    fmt::print("{{\"row\":\"{}\",\"value\":{:.4g},\"unit\":\"{}\",\"bar\":{:.4g},\"ok\":{},"
               "\"min\":{:.4g},\"max\":{:.4g},\"rounds\":{}}}\n",
               row, value, unit, bar, ok, *low, *high, rounds.size());
  else
    fmt::print("{:<48} {:>10.4g} {:<9} {:.4g} .. {:.4g}{}\n", row, value, unit, *low, *high,
               bar == 0 ? std::string()
                        : fmt::format("  bar {:.4g} {}", bar, ok ? "ok" : "MISSED"));
  std::fflush(stdout);
}

namespace {

constexpr std::string_view usage =
    "scale_bench [--json] [--quick] [--rounds N] [--only scheduler|supervisor|world]\n";

bool read(scale_options& o, std::string& only, int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--json")
      o.json = true;
    else if (word == "--quick")
      o.quick = true;
    else if (word == "--rounds" && i + 1 < count)
      o.rounds = std::atoi(words[++i]);
    else if (word == "--only" && i + 1 < count)
      only = words[++i];
    else
      return false;
  }
  const bool is_known =
      only.empty() || only == "scheduler" || only == "supervisor" || only == "world";
  return is_known && o.rounds >= 1 && o.rounds <= 100;
}

} // namespace
} // namespace baton::bench

int main(int count, char** words) {
  using namespace baton::bench;
  spdlog::set_level(spdlog::level::off);
  scale_options o;
  std::string only;
  if (!read(o, only, count, words)) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  if (only.empty() || only == "scheduler")
    measure_scheduler(o);
  if (only.empty() || only == "supervisor")
    measure_supervisor(o);
  if (only.empty() || only == "world")
    measure_world(o);
}
