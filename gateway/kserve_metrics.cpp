#include "gateway/kserve_metrics.hpp"

#include <chrono>

namespace baton::gateway {
namespace {

using namespace prometheus;

constexpr const char* version = "1";

Counter& counter(Registry& all, const char* name, const char* help, const std::string& model,
                 const char* reason = nullptr) {
  Labels labels{{"model", model}, {"version", version}};
  if (reason) {
    labels.emplace("reason", reason);
  }
  return BuildCounter().Name(name).Help(help).Register(all).Add(labels);
}

void add(MetricFamily& family, const std::string& model, double value) {
  ClientMetric metric;
  metric.label = {{"model", model}, {"version", version}};
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily family_of(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

} // namespace

kserve_series::kserve_series(Registry& all, const std::string& model)
    : success_(counter(all, "nv_inference_request_success",
                       "Number of successful inference requests.", model)),
      failure_(counter(all, "nv_inference_request_failure", "Number of failed inference requests.",
                       model, "BACKEND")),
      cancelled_(counter(all, "nv_inference_request_failure",
                         "Number of failed inference requests.", model, "CANCELED")),
      count_(counter(all, "nv_inference_count", "Number of inferences performed.", model)),
      duration_us_(counter(all, "nv_inference_request_duration_us",
                           "Cumulative inference request duration in microseconds.", model)),
      queue_us_(counter(all, "nv_inference_queue_duration_us",
                        "Cumulative inference queuing duration in microseconds.", model)),
      compute_us_(counter(all, "nv_inference_compute_infer_duration_us",
                          "Cumulative compute inference duration in microseconds.", model)),
      first_(BuildHistogram()
                 .Name("nv_inference_first_response_histogram_ms")
                 .Help("Duration from request to first response in milliseconds.")
                 .Register(all)
                 .Add({{"model", model}, {"version", version}},
                      Histogram::BucketBoundaries{100, 500, 2000, 5000})) {}

void kserve_series::ended(const ended_request& r) {
  if (!r.is_well) {
    (r.is_cancelled ? cancelled_ : failure_).Increment();
    failure_seconds_ += r.seconds;
    return;
  }
  success_.Increment();
  count_.Increment();
  duration_us_.Increment(r.seconds * 1e6);
  queue_us_.Increment(r.queue_seconds * 1e6);
  compute_us_.Increment((r.seconds - r.queue_seconds) * 1e6);
  last_ms_ = std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::system_clock::now().time_since_epoch())
                 .count();
}

model_tally kserve_series::tally() const {
  model_tally t;
  t.succeeded = static_cast<std::uint64_t>(success_.Value());
  t.failed = static_cast<std::uint64_t>(failure_.Value() + cancelled_.Value());
  t.success_seconds = duration_us_.Value() / 1e6;
  t.failure_seconds = failure_seconds_;
  t.queue_seconds = queue_us_.Value() / 1e6;
  t.last_ms = last_ms_;
  return t;
}

std::uint64_t steps_of(const snapshot& now, std::string_view model) {
  std::uint64_t steps = 0;
  for (const auto i : pipelines_of(now, model)) {
    steps += now.pipelines[i].load ? now.pipelines[i].load->steps : 0;
  }
  return steps;
}

std::vector<model_statistics> statistics_of(const snapshot& now, const metrics& counts,
                                            std::string_view model) {
  std::vector<model_statistics> all;
  for (const auto& s : kserve_standings(now)) {
    if (model.empty() || s.name == model) {
      all.push_back({s.name, counts.tally_of(s.name), steps_of(now, s.name)});
    }
  }
  return all;
}

void add_kserve_loads(std::vector<MetricFamily>& out, const snapshot& now) {
  auto pending =
      family_of("nv_inference_pending_request_count",
                "Instantaneous number of pending requests awaiting execution.", MetricType::Gauge);
  auto executed = family_of("nv_inference_exec_count", "Number of model executions performed.",
                            MetricType::Counter);
  for (const auto& s : kserve_standings(now)) {
    double waiting = 0;
    for (const auto i : pipelines_of(now, s.name)) {
      waiting += now.pipelines[i].load ? now.pipelines[i].load->waiting : 0;
    }
    add(pending, s.name, waiting);
    add(executed, s.name, static_cast<double>(steps_of(now, s.name)));
  }
  for (auto* family : {&pending, &executed}) {
    if (!family->metric.empty()) {
      out.push_back(std::move(*family));
    }
  }
}

} // namespace baton::gateway
