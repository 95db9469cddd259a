// What the schedulers have said last, as metrics: under own names, vLLM's and TGI's. The series of
// all pipelines are one family. Behind metrics.cpp's wall: prometheus-cpp.
#pragma once

#include "gateway/base/snapshot.hpp"

#include <prometheus/metric_family.h>

#include <vector>

namespace baton::gateway {

void add_loads(std::vector<prometheus::MetricFamily>& out,
               const std::vector<pipeline_view>& pipelines);

} // namespace baton::gateway
