#include "gateway/metrics/kserve_metrics.hpp"

#include <algorithm>
#include <chrono>

namespace baton::gateway {
namespace {

using namespace prometheus;

Labels labels_of(const std::string& model, const std::string& version) {
  return {{"model", model}, {"version", version}};
}

Counter& reason_counter(Registry& all, const char* name, const char* help, Labels labels,
                        const char* reason = nullptr) {
  if (reason) {
    labels.emplace("reason", reason);
  }
  return BuildCounter().Name(name).Help(help).Register(all).Add(labels);
}

void add(MetricFamily& family, const std::string& model, std::string_view version, double value) {
  ClientMetric metric;
  metric.label = {{"model", model}, {"version", std::string(version)}};
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily kserve_family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

} // namespace

kserve_series::kserve_series(Registry& all, const std::string& model, const std::string& version)
    : success_(reason_counter(all, "nv_inference_request_success",
                              "Number of successful inference requests.",
                              labels_of(model, version))),
      failure_(reason_counter(all, "nv_inference_request_failure",
                              "Number of failed inference requests.", labels_of(model, version),
                              "BACKEND")),
      cancelled_(reason_counter(all, "nv_inference_request_failure",
                                "Number of failed inference requests.", labels_of(model, version),
                                "CANCELED")),
      count_(reason_counter(all, "nv_inference_count", "Number of inferences performed.",
                            labels_of(model, version))),
      duration_us_(reason_counter(all, "nv_inference_request_duration_us",
                                  "Cumulative inference request duration in microseconds.",
                                  labels_of(model, version))),
      queue_us_(reason_counter(all, "nv_inference_queue_duration_us",
                               "Cumulative inference queuing duration in microseconds.",
                               labels_of(model, version))),
      input_us_(reason_counter(all, "nv_inference_compute_input_duration_us",
                               "Cumulative compute input duration in microseconds.",
                               labels_of(model, version))),
      compute_us_(reason_counter(all, "nv_inference_compute_infer_duration_us",
                                 "Cumulative compute inference duration in microseconds.",
                                 labels_of(model, version))),
      first_(
          BuildHistogram()
              .Name("nv_inference_first_response_histogram_ms")
              .Help("Duration from request to first response in milliseconds.")
              .Register(all)
              .Add(labels_of(model, version), Histogram::BucketBoundaries{100, 500, 2000, 5000})) {
  reason_counter(all, "nv_inference_compute_output_duration_us",
                 "Cumulative inference compute output duration in microseconds.",
                 labels_of(model, version)); // outputs are not copied: it stays 0
}

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
  input_us_.Increment(r.prepare_seconds * 1e6);
  compute_us_.Increment(std::max(0.0, r.seconds - r.queue_seconds - r.prepare_seconds) * 1e6);
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
  t.prepare_seconds = input_us_.Value() / 1e6;
  t.last_ms = last_ms_;
  t.executions = executions_;
  return t;
}

std::uint64_t steps_of(const snapshot& now, std::string_view model) {
  std::uint64_t steps = 0;
  for (const auto i : pipelines_of(now, model)) {
    const auto* counts = counts_of(now.pipelines[i]);
    steps += counts ? counts->steps : 0;
  }
  return steps;
}

std::vector<model_statistics> statistics_of(const snapshot& now, const metrics& counts,
                                            std::string_view model) {
  std::vector<model_statistics> all;
  for (const auto& s : kserve_standings(now)) {
    if (model.empty() || s.name == model) {
      all.push_back({.name = s.name,
                     .tally = counts.tally_of(s.name),
                     .steps = steps_of(now, s.name),
                     .version = s.version});
    }
  }
  return all;
}

model_statistics worker_statistics(const worker_view& of, const metrics& counts) {
  const auto tally = counts.tally_of(of.name, of.version);
  return {.name = of.name,
          .tally = tally,
          .steps = tally.executions,
          .version = of.version,
          .batches = of.load->tally.batches()};
}

void add_kserve_host(std::vector<MetricFamily>& out, const host_load& now) {
  constexpr double percent = 100, mib = 1 << 20;
  const auto add = [&out](const char* name, const char* help, double value) {
    auto family = kserve_family(name, help, MetricType::Gauge);
    ClientMetric metric;
    metric.gauge.value = value;
    family.metric.push_back(std::move(metric));
    out.push_back(std::move(family));
  };
  add("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0].", now.cpu_percent / percent);
  add("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes.",
      (now.memory_used_mib + now.memory_available_mib) * mib);
  add("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes.", now.memory_used_mib * mib);
}

void add_kserve_loads(std::vector<MetricFamily>& out, const snapshot& now,
                      const std::vector<worker_view>& workers,
                      const executions_by_model& executions) {
  auto pending = kserve_family("nv_inference_pending_request_count",
                               "Instantaneous number of pending requests awaiting execution.",
                               MetricType::Gauge);
  auto executed = kserve_family("nv_inference_exec_count", "Number of model executions performed.",
                                MetricType::Counter);
  for (const auto& s : kserve_standings(now)) {
    double waiting = 0;
    for (const auto i : pipelines_of(now, s.name)) {
      waiting += now.pipelines[i].load ? now.pipelines[i].load->waiting : 0;
    }
    add(pending, s.name, s.version, waiting);
    add(executed, s.name, s.version, static_cast<double>(steps_of(now, s.name)));
  }
  for (const auto& w : workers) {
    add(pending, w.name, w.version, static_cast<double>(w.load->waiting));
  }
  for (const auto& [who, count] : executions) {
    add(executed, who.first, who.second, static_cast<double>(count));
  }
  for (auto* family : {&pending, &executed}) {
    if (!family->metric.empty()) {
      out.push_back(std::move(*family));
    }
  }
}

} // namespace baton::gateway
