#include "cluster/process/left_over.hpp"

#include <fmt/ranges.h>
#include <poll.h>

#include <chrono>
#include <csignal>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds signal_patience{2500}; // after each signal
constexpr int look_interval_ms = 20;

std::vector<process_record> others(const run_dir& dir, std::string_view except) {
  auto all = dir.alive();
  std::erase_if(all, [&](const process_record& n) { return n.name == except; });
  return all;
}

} // namespace

std::string end_left_over(const run_dir& dir, std::string_view except) {
  using clock = std::chrono::steady_clock;
  std::vector<std::string> names;
  auto left = others(dir, except);
  for (const auto& record : left)
    names.push_back(record.name);
  for (const int number : {SIGTERM, SIGKILL}) {
    for (const auto& record : left)
      signal_recorded(record, number);
    for (const auto until = clock::now() + signal_patience; !left.empty() && clock::now() < until;
         left = others(dir, except))
      poll(nullptr, 0, look_interval_ms);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace baton::cluster
