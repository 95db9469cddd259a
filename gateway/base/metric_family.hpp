// A family of counters or gauges, filled value by value. Hidden behind metrics.cpp, as it needs
// prometheus-cpp.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <utility>
#include <vector>

namespace baton::gateway {

struct one_value {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  double value;
};

using label_list = std::vector<prometheus::ClientMetric::Label>;

inline prometheus::MetricFamily family_of(const one_value& v) {
  prometheus::MetricFamily family;
  family.name = v.name;
  family.help = v.help;
  family.type = v.type;
  return family;
}

inline void add_to(prometheus::MetricFamily& family, double value, label_list labels) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      value;
  family.metric.push_back(std::move(metric));
}

inline prometheus::Counter& counter(prometheus::Registry& all, const char* name, const char* help,
                                    const prometheus::Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(all).Add(labels);
}

inline prometheus::Histogram& histogram(prometheus::Registry& all, const char* name,
                                        const char* help, const prometheus::Labels& labels,
                                        const prometheus::Histogram::BucketBoundaries& borders) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(all).Add(labels, borders);
}

} // namespace baton::gateway
