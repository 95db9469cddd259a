#include "gateway/metrics/metrics.hpp"

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/base/metric_family.hpp"
#include "gateway/base/metric_labels.hpp"
#include "gateway/metrics/host_load.hpp"
#include "gateway/metrics/kserve_metrics.hpp"
#include "gateway/metrics/load_metrics.hpp"
#include "gateway/metrics/process_metrics.hpp"
#include "gateway/metrics/tgi_metrics.hpp"
#include "gateway/metrics/vllm_metrics.hpp"
#include "gateway/state/gateway_state.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

namespace baton::gateway {
namespace {

using namespace prometheus;

// Bucket borders in seconds, as vLLM's, so that its dashboards compare like with like.
const Histogram::BucketBoundaries first_token_buckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08,
                                                      0.1,   0.25,  0.5,  0.75, 1,    2.5,  5,
                                                      7.5,   10,    20,   40,   80};
const Histogram::BucketBoundaries next_token_buckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.075, 0.1,    0.15,  0.2,  0.3,   0.4,
                                                     0.5,   0.75,   1,     2.5,  5,     10};
const Histogram::BucketBoundaries request_buckets{0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,
                                                  2.5,  5,   10,  15,  20,  30, 60,  120};

Labels model_labels(std::uint32_t pipeline, const std::string& model) {
  return {{"model_name", model}, {"engine", std::to_string(pipeline)}};
}

std::string_view finished_reason(finish how) {
  switch (how) {
  case finish::stop:
    return "stop";
  case finish::length:
    return "length";
  case finish::cancelled:
    return "abort";
  case finish::failed:
    return "error";
  case finish::none:
    break;
  }
  return "none";
}

MetricFamily family_with(const one_value& v) {
  auto family = family_of(v);
  add_to(family, v.value, {});
  return family;
}

void add_keys(std::vector<MetricFamily>& out, const std::vector<key_usage>& keys) {
  const auto counters = [](const char* name, const char* help) {
    MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = MetricType::Counter;
    return family;
  };
  auto requests = counters("baton_key_requests_total", "Requests opened, by API key.");
  auto tokens =
      counters("baton_key_tokens_total", "Tokens of prompts and answers delivered, by API key.");
  auto refused =
      counters("baton_key_refused_total", "Requests refused for a quota of their API key.");
  const auto add = [](MetricFamily& to, std::vector<ClientMetric::Label> labels,
                      std::uint64_t value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = static_cast<double>(value);
    to.metric.push_back(std::move(metric));
  };
  for (const auto& key : keys) {
    add(requests, {{"key", key.name}}, key.requests);
    add(tokens, {{"key", key.name}}, key.tokens);
    for (const auto quota : quota_names) {
      const auto at = key.refused.find(quota);
      add(refused, {{"key", key.name}, {"quota", std::string(quota)}},
          at == key.refused.end() ? 0 : at->second);
    }
  }
  for (auto* family : {&requests, &tokens, &refused}) {
    if (!family->metric.empty()) {
      out.push_back(std::move(*family));
    }
  }
}

} // namespace

// The series of one pipeline that each token or request touches. Looked up once: prometheus-cpp
// builds a whole histogram for each lookup.
struct metrics::model_series {
  model_series(registry& in, const Labels& labels, kserve_series& of_model);

  Histogram &first, &next, &whole;
  Counter &prompt_tokens, &output_tokens;
  vllm_series vllm;
  tgi_series tgi;
  kserve_series& kserve; // of all pipelines of the model
};

struct metrics::registry {
  Registry all;

  Family<Counter>& counters(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(all);
  }
  Family<Histogram>& histograms(const char* name, const char* help) {
    return BuildHistogram().Name(name).Help(help).Register(all);
  }

  Family<Counter>& http_requests =
      counters("baton_http_requests_total", "HTTP requests by route and status code.");
  Family<Histogram>& http_seconds = histograms("baton_http_request_duration_seconds",
                                               "Time from the request's header to its last byte.");
  Gauge& connections = BuildGauge()
                           .Name("baton_http_connections")
                           .Help("Open HTTP and WebSocket connections.")
                           .Register(all)
                           .Add({});
  Family<Counter>& refusals =
      counters("baton_requests_refused_total", "Requests refused, by door and reason.");
  Family<Counter>& opened = counters("baton_requests_opened_total", "Requests opened, by door.");
  Family<Counter>& gone = counters("baton_clients_gone_total",
                                   "Requests whose client disconnected or cancelled, by door.");
  Family<Counter>& came_back =
      counters("baton_requests_resumed_total", "Requests resumed after a loss, by cause.");
  Family<Counter>& drops =
      counters("baton_messages_dropped_total", "Messages without effect, by kind.");
  Family<Counter>& routed = counters("baton_router_requests_total",
                                     "Requests sent to each of several pipelines, by reason.");
  Family<Counter>& moved =
      counters("baton_streams_moved_total", "Streams of a pipeline that migrated to another one.");
  Family<Counter>& ended =
      counters("baton_choices_ended_total", "Ended choices, by finish reason.");
  Family<Counter>& vllm_ended =
      counters("vllm:request_success_total", "Count of successfully processed requests.");

  // Without tracing no series is added to them.
  Family<Counter>& spans_exported =
      counters("baton_spans_exported_total", "Spans that the collector has taken.");
  Family<Counter>& spans_dropped = counters(
      "baton_spans_dropped_total", "Spans lost, because the collector did not take them in time.");

  registry();

  gateway::vllm_http vllm_http{all};
  std::mutex host_mutex;
  host_reader host;

  Counter& tgi_opened = counters("tgi_request_count", "Total number of requests.").Add({});
  Family<Counter>& tgi_failed = counters("tgi_request_failure", "Number of failed requests.");

  std::mutex models_mutex;
  std::map<std::pair<std::uint32_t, std::string>, model_series> models; // entries stay
  std::map<std::pair<std::string, std::string>, kserve_series> kserve;  // by version; entries stay
  std::set<std::pair<std::string, std::string>> of_workers; // worker models among `kserve`

  process_metrics processes;

  model_series& of(std::uint32_t pipeline, const std::string& model) {
    std::lock_guard lock(models_mutex);
    const std::pair key(pipeline, model);
    auto it = models.find(key);
    if (it == models.end()) {
      it = models
               .try_emplace(key, *this, model_labels(pipeline, model),
                            kserve_of(model, std::string(kserve_version)))
               .first;
      begin_ends(pipeline, model);
    }
    return it->second;
  }
  Counter& ended_of(const std::string& model, std::string_view reason) {
    return ended.Add({{"model_name", model}, {"how", std::string(reason)}});
  }
  Counter& vllm_ended_of(std::uint32_t pipeline, const std::string& model,
                         std::string_view reason) {
    auto labels = model_labels(pipeline, model);
    labels.emplace("finished_reason", reason);
    return vllm_ended.Add(labels);
  }
  Counter& routed_of(std::uint32_t pipeline, const std::string& model, std::string_view why) {
    auto labels = model_labels(pipeline, model);
    labels.emplace("reason", why);
    return routed.Add(labels);
  }
  void begin_ends(std::uint32_t pipeline, const std::string& model) {
    for (const auto how : counted_ends) {
      ended_of(model, finished_reason(how));
      vllm_ended_of(pipeline, model, finished_reason(how));
    }
  }
  // Creates the series of all known pipelines and worker models, even before their first request.
  void begin_models(const snapshot& now, const std::vector<worker_view>& workers) {
    const auto count = static_cast<std::uint32_t>(now.pipelines.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& model = model_of(now.pipelines[i]);
      if (model.empty())
        continue;
      of(i, model);
      for (const auto why : route_reasons)
        if (count > 1) // a single pipeline is never chosen
          routed_of(i, model, why);
      if (count > 1)
        moved.Add(model_labels(i, model));
    }
    for (const auto& worker : workers)
      of_worker(worker.name, worker.version);
  }
  // Requires: models_mutex is held.
  kserve_series& kserve_of(const std::string& model, const std::string& version) {
    return kserve.try_emplace({model, version}, all, model, version).first->second;
  }
  kserve_series& of_worker(const std::string& model, const std::string& version) {
    std::lock_guard lock(models_mutex);
    of_workers.emplace(model, version);
    return kserve_of(model, version);
  }
  executions_by_model executions() {
    std::lock_guard lock(models_mutex);
    executions_by_model found;
    for (const auto& who : of_workers)
      found[who] = kserve.at(who).tally().executions;
    return found;
  }
  Histogram& histogram(const char* name, const char* help, const Labels& labels,
                       const Histogram::BucketBoundaries& buckets) {
    return histograms(name, help).Add(labels, buckets);
  }
  Counter& counter(const char* name, const char* help, const Labels& labels) {
    return counters(name, help).Add(labels);
  }
};

metrics::registry::registry() {
  for (const auto protocol : protocol_labels) {
    opened.Add({{"door", std::string(protocol)}});
    gone.Add({{"door", std::string(protocol)}});
    for (const auto& row : errc_table())
      if (is_refusal(row.code))
        refusals.Add({{"door", std::string(protocol)}, {"reason", std::string(row.name)}});
  }
  for (const auto why : resume_reasons)
    came_back.Add({{"why", std::string(why)}});
  for (const auto kind : drop_kinds)
    drops.Add({{"kind", std::string(kind)}});
  for (const auto reason : {errc::overloaded, errc::invalid_value})
    tgi_failed.Add({{"err", std::string(tgi_failure_label(reason))}});
}

metrics::model_series::model_series(registry& in, const Labels& labels, kserve_series& of_model)
    : first(in.histogram("baton_time_to_first_token_seconds",
                         "From the request's arrival to its first token.", labels,
                         first_token_buckets)),
      next(in.histogram("baton_inter_token_latency_seconds", "Between tokens of one stream.",
                        labels, next_token_buckets)),
      whole(in.histogram("baton_e2e_request_latency_seconds",
                         "From the request's arrival to its last token.", labels, request_buckets)),
      prompt_tokens(
          in.counter("baton_prompt_tokens_total", "Prompt tokens of ended requests.", labels)),
      output_tokens(
          in.counter("baton_output_tokens_total", "Tokens delivered to clients.", labels)),
      vllm(in.all, labels), tgi(in.all, labels), kserve(of_model) {}

metrics::metrics() : registry_(std::make_unique<registry>()) {}
metrics::~metrics() = default;

std::string_view known_method(std::string_view text) noexcept {
  constexpr std::string_view all[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
  const auto* at = std::find(std::begin(all), std::end(all), text);
  return at == std::end(all) ? "other" : *at;
}

void metrics::http_request(std::string_view route, std::string_view method, int code,
                           double seconds) {
  registry_->vllm_http.request(route, method, code, seconds);
  registry_->http_requests.Add({{"route", std::string(route)}, {"code", std::to_string(code)}})
      .Increment();
  registry_->http_seconds.Add({{"route", std::string(route)}}, request_buckets).Observe(seconds);
}

void metrics::connection_opened() {
  registry_->connections.Increment();
}

void metrics::connection_closed() {
  registry_->connections.Decrement();
}

void metrics::refused(std::string_view protocol, errc reason) {
  registry_->refusals
      .Add({{"door", std::string(protocol)}, {"reason", std::string(row_of(reason).name)}})
      .Increment();
  registry_->tgi_failed.Add({{"err", std::string(tgi_failure_label(reason))}}).Increment();
}

void metrics::request_opened(std::string_view protocol) {
  registry_->opened.Add({{"door", std::string(protocol)}}).Increment();
  registry_->tgi_opened.Increment();
}

void metrics::client_gone(std::string_view protocol) {
  registry_->gone.Add({{"door", std::string(protocol)}}).Increment();
}

void metrics::resumed(std::string_view why) {
  registry_->came_back.Add({{"why", std::string(why)}}).Increment();
}

void metrics::dropped(std::string_view what) {
  registry_->drops.Add({{"kind", std::string(what)}}).Increment();
}

void metrics::first_token(std::uint32_t pipeline, const std::string& model, double seconds) {
  auto& m = registry_->of(pipeline, model);
  m.first.Observe(seconds);
  m.vllm.first_token(seconds);
  m.kserve.first_token(seconds);
}

void metrics::next_tokens(std::uint32_t pipeline, const std::string& model, std::uint32_t count,
                          double seconds) {
  auto& m = registry_->of(pipeline, model);
  m.output_tokens.Increment(count);
  if (count == 0) {
    return;
  }
  const double each = seconds / count;
  m.vllm.next_tokens(count, each);
  if (seconds < 0) {
    return;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    m.next.Observe(each);
  }
}

void metrics::choice_ended(std::uint32_t pipeline, const std::string& model, finish how,
                           std::uint32_t output_tokens) {
  registry_->of(pipeline, model).vllm.choice_ended(output_tokens);
  const auto reason = finished_reason(how);
  registry_->ended_of(model, reason).Increment();
  registry_->vllm_ended_of(pipeline, model, reason).Increment();
}

void metrics::request_ended(std::uint32_t pipeline, const std::string& model,
                            const ended_request& r) {
  auto& m = registry_->of(pipeline, model);
  m.whole.Observe(r.seconds);
  m.vllm.ended(r);
  m.tgi.ended(r);
  m.kserve.ended(r);
  m.prompt_tokens.Increment(static_cast<double>(r.prompt_tokens));
}

void metrics::worker_answered(const std::string& model, const std::string& version,
                              double seconds) {
  registry_->of_worker(model, version).first_token(seconds);
}

void metrics::worker_ended(const std::string& model, const std::string& version,
                           const ended_request& r) {
  registry_->of_worker(model, version).ended(r);
}

void metrics::worker_executed(const std::string& model, const std::string& version) {
  registry_->of_worker(model, version).executed();
}

void metrics::processes(const std::vector<status>& all) {
  registry_->processes.take(all);
}

model_tally metrics::tally_of(const std::string& model, const std::string& version) const {
  std::lock_guard lock(registry_->models_mutex);
  const auto it = registry_->kserve.find({model, version});
  return it == registry_->kserve.end() ? model_tally() : it->second.tally();
}

void metrics::moved(std::uint32_t pipeline, const std::string& model) {
  registry_->moved.Add(model_labels(pipeline, model)).Increment();
}

void metrics::routed(std::uint32_t pipeline, const std::string& model, std::string_view why) {
  registry_->routed_of(pipeline, model, why).Increment();
}

void metrics::spans(std::uint64_t exported, std::uint64_t dropped) {
  registry_->spans_exported.Add({}).Increment(static_cast<double>(exported));
  registry_->spans_dropped.Add({}).Increment(static_cast<double>(dropped));
}

std::string metrics::text(const snapshot& now, std::size_t requests_open,
                          const std::vector<key_usage>& keys,
                          const std::vector<worker_view>& workers) const {
  registry_->begin_models(now, workers);
  auto families = registry_->all.Collect();
  const auto stand = standing_of(now);
  families.push_back(family_with({"baton_ready", "1 if new requests are served, as /health says.",
                                  MetricType::Gauge, stand.phase == phase::ready ? 1.0 : 0.0}));
  families.push_back(family_with({"baton_requests_open", "Requests open at this gateway.",
                                  MetricType::Gauge, static_cast<double>(requests_open)}));
  add_loads(families, now.pipelines);
  if (now.cluster) {
    add_model_loads(families, now.cluster->pipelines);
  }
  add_kserve_loads(families, now, workers, registry_->executions());
  {
    const std::lock_guard lock(registry_->host_mutex);
    add_kserve_host(families, registry_->host.read());
  }
  if (now.cluster)
    registry_->processes.add(families, now.cluster->nodes);
  add_keys(families, keys);
  std::ostringstream out;
  TextSerializer{}.Serialize(out, families);
  return std::move(out).str();
}

} // namespace baton::gateway
