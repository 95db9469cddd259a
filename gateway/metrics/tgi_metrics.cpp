#include "gateway/metrics/tgi_metrics.hpp"

#include "gateway/base/metric_family.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries tgi_request_seconds{0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,
                                                      2.5,  5,   10,  15,  20,  30, 60,  120};
const Histogram::BucketBoundaries token_seconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                0.075, 0.1,    0.15,  0.2,  0.3,   0.4,
                                                0.5,   0.75,   1,     2.5,  5,     10};
const Histogram::BucketBoundaries tgi_token_counts{1,   2,   4,    8,    16,   32,   64,    128,
                                                   256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

prometheus::Labels with_err(prometheus::Labels labels, std::string_view label) {
  labels.emplace("err", label);
  return labels;
}

} // namespace

tgi_series::tgi_series(prometheus::Registry& all, const prometheus::Labels& labels)
    : duration_(histogram(all, "tgi_request_duration", "Duration of the entire request.", labels,
                          tgi_request_seconds)),
      validation_(histogram(all, "tgi_request_validation_duration",
                            "Duration of the request's validation: its text becomes tokens.",
                            labels, tgi_request_seconds)),
      queue_(histogram(all, "tgi_request_queue_duration", "Time that the request waited.", labels,
                       tgi_request_seconds)),
      inference_(histogram(all, "tgi_request_inference_duration",
                           "Duration of the request's inference.", labels, tgi_request_seconds)),
      input_length_(histogram(all, "tgi_request_input_length", "Length of the prompt in tokens.",
                              labels, tgi_token_counts)),
      generated_tokens_(histogram(all, "tgi_request_generated_tokens",
                                  "Generated tokens of the request.", labels, tgi_token_counts)),
      max_new_tokens_(histogram(all, "tgi_request_max_new_tokens",
                                "Maximum new tokens of the request.", labels, tgi_token_counts)),
      time_per_token_(histogram(all, "tgi_request_mean_time_per_token_duration",
                                "Mean time per token of the request.", labels, token_seconds)),
      success_(counter(all, "tgi_request_success", "Number of successful requests.", labels)),
      failure_(counter(all, "tgi_request_failure", "Number of failed requests.",
                       with_err(labels, "generation"))) {}

void tgi_series::ended(const ended_request& r) {
  if (!r.is_well) {
    failure_.Increment();
    return;
  }
  success_.Increment();
  duration_.Observe(r.seconds);
  validation_.Observe(r.prepare_seconds);
  queue_.Observe(r.queue_seconds);
  inference_.Observe(std::max(0.0, r.seconds - r.queue_seconds - r.prepare_seconds));
  if (r.max_tokens) {
    max_new_tokens_.Observe(static_cast<double>(*r.max_tokens));
  }
  input_length_.Observe(static_cast<double>(r.prompt_tokens));
  generated_tokens_.Observe(static_cast<double>(r.output_tokens));
  if (r.output_tokens > 0) {
    time_per_token_.Observe(r.seconds / static_cast<double>(r.output_tokens));
  }
}

std::string_view tgi_failure_label(errc reason) noexcept {
  return is_for_load(reason) || reason == errc::rate_limit_exceeded ? "overloaded" : "validation";
}

} // namespace baton::gateway
