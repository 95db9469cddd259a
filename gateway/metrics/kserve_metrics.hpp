// Mirrors /metrics under Triton's names (`nv_*`), and keeps the data of Triton's statistics. Each
// model has one series over all its pipelines. Hidden behind metrics.cpp, as it needs
// prometheus-cpp.
#pragma once

#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/metrics/host_load.hpp"
#include "gateway/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace baton::gateway {

class kserve_series {
public:
  kserve_series(prometheus::Registry& all, const std::string& model, const std::string& version);

  void first_token(double seconds) { first_.Observe(seconds * 1e3); }
  void ended(const ended_request& r);
  void executed() { ++executions_; }
  model_tally tally() const;

private:
  prometheus::Counter &success_, &failure_, &cancelled_, &count_;
  prometheus::Counter &duration_us_, &queue_us_, &input_us_, &compute_us_;
  prometheus::Histogram& first_; // in milliseconds, as Triton's
  std::atomic<double> failure_seconds_{0};
  std::atomic<std::int64_t> last_ms_{0};
  std::atomic<std::uint64_t> executions_{0};
};

// Steps of all pipelines of a model.
std::uint64_t steps_of(const snapshot& now, std::string_view model);
// Statistics of a model over all its pipelines, or of all models if `model` is empty.
std::vector<model_statistics> statistics_of(const snapshot& now, const metrics& counts,
                                            std::string_view model = {});
model_statistics worker_statistics(const worker_view& of, const metrics& counts);
// For the gateway's machine.
void add_kserve_host(std::vector<prometheus::MetricFamily>& out, const host_load& now);
// The last reports of the schedulers and the worker pools. `executions`: of worker models by name
// and version, including those that are not served any more.
using executions_by_model = std::map<std::pair<std::string, std::string>, std::uint64_t>;
void add_kserve_loads(std::vector<prometheus::MetricFamily>& out, const snapshot& now,
                      const std::vector<worker_view>& workers,
                      const executions_by_model& executions);

} // namespace baton::gateway
