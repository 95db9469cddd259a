#include "gateway/metrics/vllm_metrics.hpp"

#include "gateway/base/metric_family.hpp"

#include <algorithm>
#include <iterator>

namespace baton::gateway {
namespace {

using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;
using borders = Histogram::BucketBoundaries;

// As vLLM's, so that its dashboards compare like with like.
const borders first_token_seconds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                  0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80};
const borders next_token_seconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                 0.2,   0.3,    0.4,   0.5,  0.75,  1,    2.5,   5,   10};
const borders vllm_request_seconds{0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,
                                   2.5,  5,   10,  15,  20,  30, 60,  120};
const borders vllm_token_counts{1,    2,    5,     10,    20,    50,     100,    200,    500, 1000,
                                2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6};
const borders choice_counts{1, 2, 5, 10, 20};
const borders http_seconds{0.1, 0.5, 1}; // of prometheus-fastapi-instrumentator

} // namespace

vllm_series::vllm_series(Registry& all, const Labels& labels)
    : first_(histogram(all, "vllm:time_to_first_token_seconds",
                       "Histogram of time to first token in seconds.", labels,
                       first_token_seconds)),
      next_(histogram(all, "vllm:inter_token_latency_seconds",
                      "Histogram of inter-token latency in seconds.", labels, next_token_seconds)),
      whole_(histogram(all, "vllm:e2e_request_latency_seconds",
                       "Histogram of e2e request latency in seconds.", labels,
                       vllm_request_seconds)),
      queue_(histogram(all, "vllm:request_queue_time_seconds",
                       "Histogram of time spent in WAITING phase for request.", labels,
                       vllm_request_seconds)),
      prefill_(histogram(all, "vllm:request_prefill_time_seconds",
                         "Histogram of time spent in PREFILL phase for request.", labels,
                         vllm_request_seconds)),
      decode_(histogram(all, "vllm:request_decode_time_seconds",
                        "Histogram of time spent in DECODE phase for request.", labels,
                        vllm_request_seconds)),
      inference_(histogram(all, "vllm:request_inference_time_seconds",
                           "Histogram of time spent in RUNNING phase for request.", labels,
                           vllm_request_seconds)),
      prompt_tokens_(histogram(all, "vllm:request_prompt_tokens",
                               "Number of prefill tokens processed.", labels, vllm_token_counts)),
      generation_tokens_(histogram(all, "vllm:request_generation_tokens",
                                   "Number of generation tokens processed.", labels,
                                   vllm_token_counts)),
      longest_(histogram(all, "vllm:request_max_num_generation_tokens",
                         "Histogram of maximum number of requested generation tokens.", labels,
                         vllm_token_counts)),
      n_(histogram(all, "vllm:request_params_n", "Histogram of the n request parameter.", labels,
                   choice_counts)),
      max_tokens_(histogram(all, "vllm:request_params_max_tokens",
                            "Histogram of the max_tokens request parameter.", labels,
                            vllm_token_counts)),
      prompt_total_(
          counter(all, "vllm:prompt_tokens_total", "Number of prefill tokens processed.", labels)),
      generation_total_(counter(all, "vllm:generation_tokens_total",
                                "Number of generation tokens processed.", labels)) {}

void vllm_series::next_tokens(std::uint32_t count, double each) {
  generation_total_.Increment(count);
  for (std::uint32_t i = 0; each >= 0 && i < count; ++i)
    next_.Observe(each);
}

// The phases follow each other. If a request ended without a token, only its queue phase is known.
void vllm_series::ended(const ended_request& r) {
  whole_.Observe(r.seconds);
  queue_.Observe(r.queue_seconds);
  if (r.first_token_seconds && r.last_token_seconds) {
    const double begun = r.queue_seconds + r.prepare_seconds;
    prefill_.Observe(std::max(0.0, *r.first_token_seconds - begun));
    decode_.Observe(*r.last_token_seconds - *r.first_token_seconds);
    inference_.Observe(std::max(0.0, *r.last_token_seconds - begun));
    longest_.Observe(static_cast<double>(r.longest_output_tokens));
  }
  prompt_tokens_.Observe(static_cast<double>(r.prompt_tokens));
  prompt_total_.Increment(static_cast<double>(r.prompt_tokens));
  if (r.choices > 0)
    n_.Observe(r.choices);
  if (r.max_tokens)
    max_tokens_.Observe(static_cast<double>(*r.max_tokens));
}

vllm_http::vllm_http(Registry& all)
    : requests_(prometheus::BuildCounter()
                    .Name("http_requests_total")
                    .Help("Total number of requests by method, status and handler.")
                    .Register(all)),
      seconds_(prometheus::BuildHistogram()
                   .Name("http_request_duration_seconds")
                   .Help("Latency with only few buckets by handler.")
                   .Register(all)) {}

void vllm_http::request(std::string_view route, std::string_view method, int code, double seconds) {
  // Polls by machines, which vLLM does not count either.
  constexpr std::string_view uncounted[] = {"/metrics", "/health", "/load", "/ping", "/version"};
  if (std::find(std::begin(uncounted), std::end(uncounted), route) != std::end(uncounted))
    return;
  const std::string handler(route == "other" ? "none" : route);
  requests_
      .Add({{"handler", handler},
            {"method", std::string(method)},
            {"status", std::to_string(code / 100) + "xx"}})
      .Increment();
  seconds_.Add({{"handler", handler}, {"method", std::string(method)}}, http_seconds)
      .Observe(seconds);
}

} // namespace baton::gateway
