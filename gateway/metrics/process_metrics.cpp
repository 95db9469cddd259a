#include "gateway/metrics/process_metrics.hpp"

#include "gateway/base/metric_family.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// Beyond it the restarts of processes that no longer exist are forgotten.
constexpr std::size_t processes_known_max = 16'384;

// The supervisor of each process, and how much of its restart budget is used.
void add_supervision(std::vector<MetricFamily>& out, const std::vector<status>& processes) {
  const auto gauge = [](const char* name, const char* help) {
    return family_of({name, help, MetricType::Gauge, 0});
  };
  auto recent = gauge("baton_supervision_restarts_recent",
                      "Restarts of the process within its supervisor's period.");
  auto allowed = gauge("baton_supervision_restarts_max",
                       "Restarts of the process that its supervisor allows within the period.");
  auto period = gauge("baton_supervision_period_seconds", "The period of a process's supervisor.");
  auto given_up =
      gauge("baton_supervision_given_up", "1 if the process is not restarted any more.");
  for (const auto& p : processes) {
    if (!p.supervision) {
      continue;
    }
    const auto& by = *p.supervision;
    const label_list labels{
        {"process", p.name},
        {"strategy", std::string(restart_strategy_names[static_cast<std::size_t>(by.strategy)])},
        {"supervisor", by.by}};
    add_to(recent, by.restarts_recent, labels);
    add_to(allowed, by.restarts_max, labels);
    add_to(period, by.period_seconds, labels);
    add_to(given_up, by.has_given_up ? 1 : 0, labels);
  }
  for (auto* family : {&recent, &allowed, &period, &given_up}) {
    if (!family->metric.empty()) {
      out.push_back(std::move(*family));
    }
  }
}

// The processes of the root's last report.
void add_restarts(std::vector<MetricFamily>& out, const std::vector<status>& processes,
                  const std::map<std::string, rising_count>& restarts_of) {
  auto ready =
      family_of({"baton_process_ready", "1 if the process is ready.", MetricType::Gauge, 0});
  auto restarts = family_of({"baton_process_restarts_total",
                             "Restarts of the process by its supervisor.", MetricType::Counter, 0});
  for (const auto& p : processes) {
    const auto known = restarts_of.find(p.name);
    const label_list labels{{"process", p.name}, {"role", std::string(name_of(p.role))}};
    add_to(ready, p.phase == phase::ready ? 1 : 0, labels);
    add_to(restarts,
           static_cast<double>(known == restarts_of.end() ? p.restarts : known->second.total()),
           labels);
  }
  if (!processes.empty()) {
    out.push_back(std::move(ready));
    out.push_back(std::move(restarts));
  }
}

} // namespace

void process_metrics::take(const std::vector<status>& all) {
  const std::lock_guard lock(mutex_);
  for (const auto& p : all)
    restarts_[p.name].take(p.restarts);
  if (restarts_.size() > processes_known_max)
    std::erase_if(restarts_, [&](const auto& one) {
      return std::none_of(all.begin(), all.end(),
                          [&](const status& p) { return p.name == one.first; });
    });
}

void process_metrics::add(std::vector<MetricFamily>& out, const std::vector<status>& all) {
  const std::lock_guard lock(mutex_);
  add_restarts(out, all, restarts_);
  add_supervision(out, all);
}

} // namespace baton::gateway
