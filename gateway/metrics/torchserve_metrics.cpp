#include "gateway/metrics/torchserve_metrics.hpp"

#include "gateway/api/torchserve/torchserve_error.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

namespace baton::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using label_list = std::vector<ClientMetric::Label>;

constexpr double millis_of_second = 1000;

double micros(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

// TorchServe uses "default" if no version was requested.
std::string_view version_label(bool has_version) {
  return has_version ? torchserve_version : "default";
}

// Families in the order of the output.
class family_list {
public:
  explicit family_list(const std::vector<std::string>& names) : names_(names) {}

  bool is_asked(const char* name) const {
    return names_.empty() || std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  bool has(const std::string& name) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& f) { return f.name == name; });
  }
  MetricFamily* begin(const char* name, MetricType type, const char* unit) {
    if (!is_asked(name)) {
      return nullptr;
    }
    auto& family = all_.emplace_back();
    family.name = name;
    family.type = type;
    family.help = std::string("Torchserve prometheus ") +
                  (type == MetricType::Counter ? "counter" : "gauge") +
                  " metric with unit: " + unit;
    return &family;
  }
  static void add(MetricFamily* family, label_list labels, double value) {
    if (!family) {
      return;
    }
    ClientMetric metric;
    metric.label = std::move(labels);
    (family->type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family->metric.push_back(std::move(metric));
  }
  void one(const char* name, MetricType type, const char* unit, label_list labels, double value) {
    add(begin(name, type, unit), std::move(labels), value);
  }
  std::string text() const {
    std::ostringstream out;
    prometheus::TextSerializer{}.Serialize(out, all_);
    return std::move(out).str();
  }

private:
  const std::vector<std::string>& names_;
  std::vector<MetricFamily> all_;
};

} // namespace

void torchserve_metrics::answered(int status) {
  const std::lock_guard lock(mutex_);
  if (status >= 200 && status < 300) {
    ++by_class_[0];
  } else if (status >= 400 && status < 500) {
    ++by_class_[1];
  } else if (status >= 500) {
    ++by_class_[2];
  }
}

void torchserve_metrics::know(const std::string& model) {
  const std::lock_guard lock(mutex_);
  models_.try_emplace({model, version_label(/*has_version=*/false)});
}

void torchserve_metrics::asked(const std::string& model, bool has_version) {
  const std::lock_guard lock(mutex_);
  ++models_[{model, version_label(has_version)}].requests;
}

void torchserve_metrics::predicted(const std::string& model, bool has_version, duration queue,
                                   duration whole) {
  constexpr double micros_of_milli = 1000;
  const std::lock_guard lock(mutex_);
  auto& m = models_[{model, version_label(has_version)}];
  m.latency_micros += micros(whole);
  m.queue_micros += micros(queue);
  last_millis_[model] = micros(whole - queue) / micros_of_milli;
  last_queue_millis_ = micros(queue) / micros_of_milli;
}

std::string torchserve_metrics::text(const std::vector<std::string>& names,
                                     const metric_registry& of_handlers,
                                     const std::vector<worker_view>& workers) {
  const std::lock_guard lock(mutex_);
  family_list out(names);
  const label_list of_host{{"Level", "Host"}, {"Hostname", host_}};
  constexpr auto counter = MetricType::Counter;
  constexpr auto gauge = MetricType::Gauge;
  constexpr const char* classes[] = {"Requests2XX", "Requests4XX", "Requests5XX"};
  for (std::size_t i = 0; i < std::size(classes); ++i) {
    out.one(classes[i], counter, "Count", of_host, static_cast<double>(by_class_[i]));
  }
  const auto add_models = [&](const char* name, const char* unit, auto value_of) {
    auto* family = out.begin(name, counter, unit);
    for (const auto& [who, m] : models_) {
      family_list::add(family,
                       {{"model_name", who.first},
                        {"model_version", std::string(who.second)},
                        {"hostname", host_}},
                       value_of(m));
    }
  };
  add_models("ts_inference_requests_total", "Count",
             [](const of_model& m) { return static_cast<double>(m.requests); });
  add_models("ts_inference_latency_microseconds", "Microseconds",
             [](const of_model& m) { return m.latency_micros; });
  add_models("ts_queue_latency_microseconds", "Microseconds",
             [](const of_model& m) { return m.queue_micros; });
  if (auto* family = out.begin("QueueTime", gauge, "Milliseconds");
      family && last_queue_millis_ >= 0) {
    family_list::add(family, of_host, last_queue_millis_);
  }
  for (const auto* name : {"HandlerTime", "PredictionTime"}) {
    auto* family = out.begin(name, gauge, "ms");
    for (const auto& [model, millis] : last_millis_) {
      family_list::add(family, {{"ModelName", model}, {"Level", "Model"}, {"Hostname", host_}},
                       millis);
    }
  }
  if (auto* family = out.begin("WorkerLoadTime", gauge, "Milliseconds")) {
    for (const auto& one : workers) {
      for (const auto& [process, seconds] : one.load->tally.load_seconds()) {
        family_list::add(family, {{"WorkerName", process}, {"Level", "Host"}, {"Hostname", host_}},
                         seconds * millis_of_second);
      }
    }
  }
  const auto now = system_.read();
  out.one("CPUUtilization", gauge, "Percent", of_host, now.cpu_percent);
  out.one("MemoryUsed", gauge, "Megabytes", of_host, now.memory_used_mib);
  out.one("MemoryAvailable", gauge, "Megabytes", of_host, now.memory_available_mib);
  out.one("MemoryUtilization", gauge, "Percent", of_host, now.memory_percent);
  out.one("DiskUsage", gauge, "Gigabytes", of_host, now.disk_used_gib);
  out.one("DiskAvailable", gauge, "Gigabytes", of_host, now.disk_available_gib);
  out.one("DiskUtilization", gauge, "Percent", of_host, now.disk_percent);
  return out.text() + of_handlers.text([&](const std::string& name) {
    return out.is_asked(name.c_str()) && !out.has(name);
  });
}

} // namespace baton::gateway
