// The processes of the cluster at /metrics, as the root reports them. Any thread. Hidden behind
// metrics.cpp, as it needs prometheus-cpp.
#pragma once

#include "gateway/base/snapshot.hpp"
#include "gateway/metrics/rising_count.hpp"

#include <prometheus/metric_family.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace baton::gateway {

class process_metrics {
public:
  // Takes the root's report. Counts begin at 0 again for a new root, and for a new process with the
  // name of an old one.
  void take(const std::vector<status>& all);
  void add(std::vector<prometheus::MetricFamily>& out, const std::vector<status>& all);

private:
  std::mutex mutex_;
  std::map<std::string, rising_count> restarts_; // by process
};

} // namespace baton::gateway
