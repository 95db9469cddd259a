// Histograms of handlers. A worker tells one as Prometheus' formats have it: counters NAME_bucket,
// each of what is up to its label `le`, NAME_sum and NAME_count; so processes of a model sum up as
// other counters do. At /metrics they are one histogram again. Behind metrics.cpp's wall:
// prometheus-cpp.
#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

namespace baton::gateway {

// What a name begins with that is a part of a histogram: "seconds" of "seconds_bucket"; else empty.
std::string_view histogram_of_part(std::string_view name) noexcept;

// Counters NAME_bucket, NAME_sum and NAME_count become the histogram NAME, where every bucket has a
// bound; all else stays.
void fold_histograms(std::vector<prometheus::MetricFamily>& families);

} // namespace baton::gateway
