// The processes of the cluster at /metrics, as the root tells of them. Any thread. Behind
// metrics.cpp's wall: prometheus-cpp.
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
  // What the root has said: a root that begins again has counted nothing yet, and neither has a
  // process that took the name of one that is gone.
  void take(const std::vector<status>& all);
  void add(std::vector<prometheus::MetricFamily>& out, const std::vector<status>& all);

private:
  std::mutex mutex_;
  std::map<std::string, rising_count> restarts_; // by process
};

} // namespace baton::gateway
