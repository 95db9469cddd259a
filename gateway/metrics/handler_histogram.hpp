// Histograms of handlers. A worker reports one as counters in Prometheus' format: NAME_bucket,
// cumulative up to its label `le`, NAME_sum and NAME_count. Processes of a model thus add up like
// other counters. /metrics shows them as one histogram. Hidden behind metrics.cpp, as it needs
// prometheus-cpp.
#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

namespace baton::gateway {

// The histogram that a counter belongs to: "seconds" for "seconds_bucket"; else empty.
std::string_view histogram_of_part(std::string_view name) noexcept;

// Folds the counters NAME_bucket, NAME_sum and NAME_count into the histogram NAME, if every bucket
// has a bound. All else stays.
void fold_histograms(std::vector<prometheus::MetricFamily>& families);

} // namespace baton::gateway
