// The schedulers' last reports as metrics, under own names and those of vLLM and TGI. All pipelines
// share one family. Hidden behind metrics.cpp, as it needs prometheus-cpp.
#pragma once

#include "gateway/base/snapshot.hpp"

#include <prometheus/metric_family.h>

#include <vector>

namespace baton::gateway {

void add_loads(std::vector<prometheus::MetricFamily>& out,
               const std::vector<pipeline_view>& pipelines);
// The models that are loaded on demand, as the root reports them.
void add_model_loads(std::vector<prometheus::MetricFamily>& out,
                     const std::vector<pipeline_status>& pipelines);

} // namespace baton::gateway
