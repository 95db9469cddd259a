#include "gateway/metrics/worker_load.hpp"

#include <fmt/format.h>

#include <iterator>

namespace baton::gateway {

void worker_tally::batch_ended(std::uint32_t size, double seconds) {
  const std::lock_guard lock(mutex_);
  auto& of_size = batches_[size];
  ++of_size.count;
  of_size.seconds += seconds;
}

void worker_tally::loaded(const std::string& process, double seconds) {
  const std::lock_guard lock(mutex_);
  load_seconds_[process] = seconds;
}

std::map<std::uint32_t, batch_tally> worker_tally::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

std::map<std::string, double> worker_tally::load_seconds() const {
  const std::lock_guard lock(mutex_);
  return load_seconds_;
}

// Names and versions contain only [A-Za-z0-9._-] and need no escapes.
std::string worker_metrics(const std::vector<worker_view>& all) {
  struct gauge {
    const char* name;
    const char* help;
    std::atomic<std::size_t> worker_load::*value;
  };
  constexpr gauge gauges[] = {
      {"baton_workers_ready", "Worker processes of the model that take requests.",
       &worker_load::workers},
      {"baton_worker_requests_waiting", "Requests that wait for a worker of the model.",
       &worker_load::waiting},
      {"baton_worker_requests_running", "Requests that workers of the model execute.",
       &worker_load::running},
  };
  std::string out;
  if (all.empty()) {
    return out;
  }
  for (const auto& g : gauges) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} gauge\n", g.name, g.help,
                   g.name);
    for (const auto& w : all) {
      fmt::format_to(std::back_inserter(out), "{}{{model_name=\"{}\",version=\"{}\"}} {}\n", g.name,
                     w.name, w.version, (w.load.get()->*g.value).load());
    }
  }
  return out;
}

} // namespace baton::gateway
