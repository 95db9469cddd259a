#include "gateway/api/kserve/models/kserve_model.hpp"

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/base/json_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::string_view platform = "baton";
// Triton's --id, an identifier of the server and not of its program, is "triton" unless an operator
// changes it, and clients of Triton check it (simple_http_health_metadata.py). The program is
// named by `version`, by the platform and the backend of a model, and by `extensions`, which list
// only what works here.
constexpr std::string_view server_id = "triton";

ordered shape_of(const tensor_row& row) {
  return ordered::array({row.is_list ? -1 : 1});
}

ordered metadata_of(std::span<const tensor_row> rows) {
  auto all = ordered::array();
  for (const auto& row : rows) {
    all.push_back(
        {{"name", row.name}, {"datatype", datatype_of(row.type)}, {"shape", shape_of(row)}});
  }
  return all;
}

// The datatype in config.pbtxt.
std::string llm_config_type(tensor_type type) {
  return type == tensor_type::bytes ? "TYPE_STRING" : "TYPE_" + std::string(datatype_of(type));
}

ordered config_of(const tensor_row& row) {
  return {{"name", row.name}, {"data_type", llm_config_type(row.type)}, {"dims", shape_of(row)}};
}

ordered duration(std::uint64_t count, double seconds) {
  return {{"count", count}, {"ns", static_cast<std::uint64_t>(seconds * 1e9)}};
}

kserve_standing standing_of_model(const snapshot& now, const std::string& name) {
  kserve_standing s{.name = name,
                    .is_ready = is_served(now, name) && !now.is_draining,
                    .state = "READY",
                    .reason = {},
                    .version = std::string(kserve_version)};
  if (s.is_ready) {
    return s;
  }
  const auto numbers = pipelines_of(now, name);
  const auto why = numbers.empty() ? standing{phase::stopped, {}}
                                   : standing_of(now, now.pipelines[numbers.front()]);
  const bool comes = why.phase == phase::starting || why.phase == phase::loading;
  s.state = now.is_draining ? "UNLOADING" : comes ? "LOADING" : "UNAVAILABLE";
  s.reason = why.reason.empty() ? std::string(name_of(why.phase)) : why.reason;
  return s;
}

} // namespace

std::string kserve_server_body(std::string_view build) {
  return json_text({{"name", server_id},
                    {"version", build},
                    {"extensions",
                     {"binary_tensor_data", "generate", "model_configuration", "model_repository",
                      "parameters", "statistics"}}});
}

std::string kserve_metadata_body(std::string_view name) {
  return json_text({{"name", name},
                    {"versions", {kserve_version}},
                    {"platform", platform},
                    {"inputs", metadata_of(kserve_inputs())},
                    {"outputs", metadata_of(kserve_outputs())}});
}

std::string kserve_config_body(const snapshot& now, std::string_view name, const model_card& card) {
  auto inputs = ordered::array(), outputs = ordered::array();
  for (const auto& row : kserve_inputs()) {
    inputs.push_back(config_of(row));
    if (row.is_optional) {
      inputs.back()["optional"] = true;
    }
  }
  for (const auto& row : kserve_outputs()) {
    outputs.push_back(config_of(row));
  }
  const auto text = [](const std::string& value) { return ordered{{"string_value", value}}; };
  return json_text(
      {{"name", name},
       {"platform", ""},
       {"backend", platform},
       {"version_policy", {{"latest", {{"num_versions", 1}}}}},
       {"max_batch_size", 0},
       {"input", std::move(inputs)},
       {"output", std::move(outputs)},
       {"instance_group", ordered::array({{{"name", name},
                                           {"kind", "KIND_MODEL"},
                                           {"count", pipelines_of(now, card.name).size()}}})},
       {"parameters",
        {{"architecture", text(card.architecture)},
         {"max_model_len", text(std::to_string(card.max_model_len))},
         {"max_num_seqs", text(std::to_string(card.sequences_max))}}},
       {"model_transaction_policy", {{"decoupled", true}}}});
}

std::vector<kserve_standing> kserve_standings(const snapshot& now) {
  std::vector<kserve_standing> all;
  for (const auto& p : now.pipelines) {
    const auto& name = model_of(p);
    if (!name.empty() && std::none_of(all.begin(), all.end(),
                                      [&](const kserve_standing& s) { return s.name == name; })) {
      all.push_back(standing_of_model(now, name));
    }
  }
  return all;
}

std::string kserve_index_body(const std::vector<kserve_standing>& all, bool ready_only) {
  auto listed = ordered::array();
  for (const auto& s : all) {
    if (s.is_ready || !ready_only) {
      ordered one{{"name", s.name}};
      if (!s.version.empty()) { // unknown until it is loaded
        one["version"] = s.version;
      }
      one["state"] = s.state;
      one["reason"] = s.reason;
      listed.push_back(std::move(one));
    }
  }
  return json_text(listed);
}

namespace {

// One entry for each batch size seen.
ordered batch_statistics(const std::map<std::uint32_t, batch_tally>& batches) {
  auto all = ordered::array();
  for (const auto& [size, tally] : batches) {
    all.push_back({{"batch_size", size},
                   {"compute_input", duration(tally.count, 0)},
                   {"compute_infer", duration(tally.count, tally.seconds)},
                   {"compute_output", duration(tally.count, 0)}});
  }
  return all;
}

} // namespace

// compute_input is the tokenization of prompts. Outputs are not copied, so compute_output is 0.
std::string kserve_statistics_body(const std::vector<model_statistics>& models) {
  auto all = ordered::array();
  for (const auto& [name, tally, steps, version, batches] : models) {
    ordered inference{
        {"success", duration(tally.succeeded, tally.success_seconds)},
        {"fail", duration(tally.failed, tally.failure_seconds)},
        {"queue", duration(tally.succeeded, tally.queue_seconds)},
        {"compute_input", duration(tally.succeeded, tally.prepare_seconds)},
        {"compute_infer",
         duration(tally.succeeded, std::max(0.0, tally.success_seconds - tally.queue_seconds -
                                                     tally.prepare_seconds))},
        {"compute_output", duration(tally.succeeded, 0)},
        {"cache_hit", duration(0, 0)},
        {"cache_miss", duration(0, 0)}};
    all.push_back({{"name", name},
                   {"version", version},
                   {"last_inference", tally.last_ms},
                   {"inference_count", tally.succeeded},
                   {"execution_count", steps},
                   {"inference_stats", std::move(inference)},
                   {"batch_stats", batch_statistics(batches)},
                   {"memory_usage", ordered::array()},
                   {"response_stats", ordered::object()}});
  }
  return json_text({{"model_stats", std::move(all)}});
}

result<std::string> kserve_model_named(const snapshot& now, const std::vector<std::string>& aliases,
                                       std::string_view name, std::string_view version) {
  if (!version.empty() && version != kserve_version) {
    return fail(errc::model_not_found, "Request for unknown model: '{}' version {} is not found",
                name.substr(0, name_bytes_shown), version.substr(0, name_bytes_shown));
  }
  const auto all = kserve_standings(now);
  for (const auto& s : all) {
    if (s.name == name) {
      return s.name;
    }
  }
  if (!all.empty() && std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
    return all.front().name;
  }
  return fail(errc::model_not_found, "Request for unknown model: '{}' is not found",
              name.substr(0, name_bytes_shown));
}

bool kserve_is_ready(const snapshot& now, std::string_view model) {
  const auto all = kserve_standings(now);
  return std::any_of(all.begin(), all.end(),
                     [&](const kserve_standing& s) { return s.name == model && s.is_ready; });
}

result<std::string> kserve_config_of(const snapshot& now, std::string_view name,
                                     std::string_view model) {
  const auto cards = models_of(now);
  const auto card = std::find_if(cards.begin(), cards.end(),
                                 [&](const model_card& c) { return c.name == model; });
  if (card == cards.end()) {
    return fail(errc::not_ready, "the model '{}' has not been loaded yet",
                name.substr(0, name_bytes_shown));
  }
  return kserve_config_body(now, name, *card);
}

result<void> check_loaded(const snapshot& now, std::string_view model) {
  for (const auto& s : kserve_standings(now)) {
    if (s.name == model && !s.is_ready) {
      return fail(errc::not_ready, "failed to load '{}': it is {}", model, s.reason);
    }
  }
  return {};
}

// As Triton with model-control-mode none.
error refusal_to_unload(std::string_view model) {
  return fail(errc::conflict,
              "failed to unload '{}': explicit model load / unload is not allowed; what is served "
              "is in nodes.toml",
              model.substr(0, name_bytes_shown));
}

} // namespace baton::gateway
