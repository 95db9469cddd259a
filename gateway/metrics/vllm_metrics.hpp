// Mirrors /metrics under vLLM's names: for the requests of one pipeline, and for HTTP requests as
// the instrumentator of vLLM's server counts them. Hidden behind metrics.cpp, as it needs
// prometheus-cpp.
#pragma once

#include "gateway/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

namespace baton::gateway {

struct vllm_series {
  vllm_series(prometheus::Registry& all, const prometheus::Labels& labels);

  void first_token(double seconds) { first_.Observe(seconds); }
  // `each`: seconds between tokens; below 0: unknown.
  void next_tokens(std::uint32_t count, double each);
  void choice_ended(std::uint32_t output_tokens) { generation_tokens_.Observe(output_tokens); }
  void ended(const ended_request& r);

private:
  prometheus::Histogram &first_, &next_, &whole_, &queue_, &prefill_, &decode_, &inference_;
  prometheus::Histogram &prompt_tokens_, &generation_tokens_, &longest_, &n_, &max_tokens_;
  prometheus::Counter &prompt_total_, &generation_total_;
};

class vllm_http {
public:
  explicit vllm_http(prometheus::Registry& all);

  void request(std::string_view route, std::string_view method, int code, double seconds);

private:
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& seconds_;
};

} // namespace baton::gateway
