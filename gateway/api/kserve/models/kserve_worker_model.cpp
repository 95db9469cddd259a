#include "gateway/api/kserve/models/kserve_worker_model.hpp"

#include "gateway/api/kserve/models/kserve_config.hpp"
#include "gateway/api/kserve/models/kserve_repository.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/metrics/kserve_metrics.hpp"
#include "gateway/request/tensor_data.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// Metadata includes the batch dimension; a configuration has it in max_batch_size.
ordered metadata_of(const std::vector<worker_tensor>& tensors, bool is_batched) {
  auto all = ordered::array();
  for (const auto& t : tensors) {
    auto shape = t.shape;
    if (is_batched) {
      shape.insert(shape.begin(), -1);
    }
    all.push_back({{"name", t.name}, {"datatype", t.datatype}, {"shape", std::move(shape)}});
  }
  return all;
}

ordered config_of(const std::vector<worker_tensor>& tensors) {
  auto all = ordered::array();
  for (const auto& t : tensors) {
    all.push_back({{"name", t.name}, {"data_type", config_type_of(t.datatype)}, {"dims", t.shape}});
    if (t.is_optional) {
      all.back()["optional"] = true;
    }
  }
  return all;
}

ordered config_of(const version_policy& policy) {
  if (policy.is_all) {
    return {{"all", ordered::object()}};
  }
  return policy.specific.empty() ? ordered{{"latest", {{"num_versions", policy.latest}}}}
                                 : ordered{{"specific", {{"versions", policy.specific}}}};
}

// `bound`: applies where the policy has none.
ordered config_of(const schedule::queue_policy& policy, std::size_t bound) {
  return {{"timeout_action", policy.is_delayed ? "DELAY" : "REJECT"},
          {"default_timeout_microseconds", policy.timeout.count()},
          {"allow_timeout_override", policy.allow_timeout_override},
          {"max_queue_size", policy.max_queue_size > 0 ? policy.max_queue_size : bound}};
}

// As in Triton: nothing for a model that takes requests one by one, in order.
std::optional<ordered> batching_of(const worker_facts& facts) {
  if (facts.batch_size == 1 && facts.priority_levels == 0 && !facts.preserve_ordering &&
      facts.queue_policy == schedule::queue_policy()) {
    return std::nullopt;
  }
  auto levels = ordered::object();
  for (const auto& [level, policy] : facts.priority_queue_policy) {
    levels[std::to_string(level)] = config_of(policy, facts.max_queued);
  }
  return ordered{
      {"preferred_batch_size", facts.preferred_batch_size},
      {"max_queue_delay_microseconds", facts.batch_size > 1 ? facts.max_batch_delay.count() : 0},
      {"preserve_ordering", facts.preserve_ordering},
      {"priority_levels", facts.priority_levels},
      {"default_priority_level", facts.default_priority_level},
      {"default_queue_policy", config_of(facts.queue_policy, facts.max_queued)},
      {"priority_queue_policy", std::move(levels)}};
}

} // namespace

std::optional<result<worker_view>>
kserve_worker_named(const gateway_state& facts, std::string_view name, std::string_view version) {
  if (!is_worker_model(facts, name)) {
    return std::nullopt;
  }
  if (auto found = find_worker(facts, name, version)) {
    return *std::move(found);
  }
  return result<worker_view>(fail(errc::model_not_found,
                                  "Request for unknown model: '{}' version {} is not found", name,
                                  version.substr(0, name_bytes_shown)));
}

kserve_standing worker_standing(const worker_view& of, const snapshot& now) {
  kserve_standing s{.name = of.name,
                    .is_ready = is_ready(of, now),
                    .state = "READY",
                    .reason = {},
                    .version = of.version};
  if (!s.is_ready) {
    s.state = now.is_draining ? "UNLOADING" : "LOADING";
    s.reason = now.is_draining ? "the server is draining" : "no worker takes its requests";
  }
  return s;
}

std::string worker_metadata_body(const gateway_state& facts, const worker_view& of) {
  const bool is_batched = of.facts->max_batch_size > 0;
  auto versions = ordered::array();
  for (const auto& one : versions_of_worker(facts, of.name)) {
    versions.push_back(one.version);
  }
  return json_text({{"name", of.name},
                    {"versions", std::move(versions)},
                    {"platform", reported_platform(*of.facts)},
                    {"inputs", metadata_of(of.facts->inputs, is_batched)},
                    {"outputs", metadata_of(of.facts->outputs, is_batched)}});
}

std::string worker_config_body(const worker_view& of) {
  const auto& facts = *of.facts;
  ordered known{{"name", of.name},
                {"backend", facts.platform},
                {"version_policy", config_of(facts.versions)},
                {"max_batch_size", facts.max_batch_size},
                {"input", config_of(facts.inputs)},
                {"output", config_of(facts.outputs)},
                {"instance_group", ordered::array({{{"name", of.name},
                                                    {"kind", "KIND_MODEL"},
                                                    {"count", facts.processes.size()}}})}};
  if (auto batching = batching_of(facts)) {
    known["dynamic_batching"] = *std::move(batching);
  }
  known["model_transaction_policy"] = {{"decoupled", facts.is_decoupled}};
  auto given = facts.config.empty() ? ordered::object() : ordered::parse(facts.config);
  return json_text(whole_config(std::move(given), known, facts.processes.size()));
}

std::vector<kserve_standing> all_standings(const gateway_state& facts, const snapshot& now) {
  auto all = kserve_standings(now);
  for (const auto& one : facts.worker_views()) {
    all.push_back(worker_standing(one, now));
  }
  add_repository(all, *facts.models(), now);
  return all;
}

std::vector<model_statistics> all_statistics(const gateway_state& facts, const snapshot& now) {
  auto all = statistics_of(now, facts.metrics());
  for (const auto& one : facts.worker_views()) {
    all.push_back(worker_statistics(one, facts.metrics()));
  }
  return all;
}

std::vector<model_statistics>
statistics_of_worker(const gateway_state& facts, std::string_view name, std::string_view version) {
  std::vector<model_statistics> all;
  for (const auto& one : versions_of_worker(facts, name)) {
    if (version.empty() || one.version == version) {
      all.push_back(worker_statistics(one, facts.metrics()));
    }
  }
  return all;
}

result<void> check_worker_loaded(const worker_view& of, const snapshot& now) {
  if (const auto s = worker_standing(of, now); !s.is_ready) {
    return fail(errc::not_ready, "failed to load '{}': {}", of.name, s.reason);
  }
  return {};
}

} // namespace baton::gateway
