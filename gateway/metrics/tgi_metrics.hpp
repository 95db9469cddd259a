// Mirrors /metrics under text-generation-inference's names, for the requests of one pipeline.
// Hidden behind metrics.cpp, as it needs prometheus-cpp.
#pragma once

#include "gateway/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

namespace baton::gateway {

struct tgi_series {
  tgi_series(prometheus::Registry& all, const prometheus::Labels& labels);

  void ended(const ended_request& r);

private:
  prometheus::Histogram &duration_, &validation_, &queue_, &inference_;
  prometheus::Histogram &input_length_, &generated_tokens_, &max_new_tokens_, &time_per_token_;
  prometheus::Counter &success_, &failure_;
};

// TGI's value of the label `err` for a refusal.
std::string_view tgi_failure_label(errc reason) noexcept;

} // namespace baton::gateway
