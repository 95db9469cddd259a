#include "gateway/api/kserve/models/kserve_repository.hpp"

#include "gateway/state/gateway_state.hpp"
#include "gateway/state/on_demand_order.hpp"
#include "schema/limits.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view state_names[] = {"", "LOADING", "READY", "UNLOADING", "UNAVAILABLE"};
std::string_view state_name(model_state state) {
  return state_names[static_cast<std::size_t>(state)];
}

bool is_of_nodes_toml(const gateway_state& facts, const std::string& model) {
  const auto served = facts.models();
  const auto& pipelines = facts.look()->pipelines;
  return std::any_of(
             served->all.begin(), served->all.end(),
             [&](const served_model& m) { return !m.is_of_repository && m.name == model; }) ||
         std::any_of(pipelines.begin(), pipelines.end(),
                     [&](const auto& p) { return model_of(p) == model; }) ||
         std::count(facts.config().model_aliases.begin(), facts.config().model_aliases.end(),
                    model) > 0;
}

// HTTP clients send true, gRPC clients {"bool_param": true}.
bool is_flag(const json& value) {
  return value.is_boolean() ||
         (value.is_object() && value.contains("bool_param") && value["bool_param"].is_boolean());
}

// `unload_dependents` concerns parts of ensembles, which this server does not have.
result<void> check_unload_parameters(const json& all) {
  for (const auto& [name, value] : all.items()) {
    const auto shown = name.substr(0, name_bytes_shown);
    if (name != "unload_dependents")
      return fail_param(errc::unsupported_parameter, shown,
                        "the parameter '{}' is not supported by this server", shown);
    if (!is_flag(value))
      return fail_param(errc::invalid_value, name, "'{}' must be true or false", name);
  }
  return {};
}

// Why no client sets this parameter of a load.
std::string_view why_refused(std::string_view parameter) {
  if (parameter == "config")
    return ": a model's config.pbtxt, or nodes.toml, configures it; change the file and load again";
  if (parameter.starts_with("file:"))
    return ": a model's files run code here, so they come from the operator's directory alone";
  return "";
}

} // namespace

result<void> check_load_parameters(const json& all) {
  if (all.empty())
    return {};
  const auto shown = all.begin().key().substr(0, name_bytes_shown);
  return fail_param(errc::unsupported_parameter, shown,
                    "the parameter '{}' is not supported by this server{}", shown,
                    why_refused(shown));
}

void add_repository(std::vector<kserve_standing>& all, const served_models& served,
                    const snapshot& now) {
  for (const auto& m : served.all) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const kserve_standing& s) {
      return s.name == m.name && s.version == m.version;
    });
    if (known == all.end())
      all.push_back({.name = m.name,
                     .is_ready = false,
                     .state = state_name(now.is_draining ? model_state::unloading : m.state),
                     .reason = m.reason,
                     .version = m.version});
    else if (known->reason.empty() && m.state == model_state::ready)
      known->reason = m.reason;
  }
}

std::optional<result<change_model>> plan_model_change(const gateway_state& facts,
                                                      const std::string& model, bool is_unload,
                                                      const json& parameters) {
  if (is_on_demand(facts, model)) {
    auto ok = is_unload ? check_unload_parameters(parameters) : check_load_parameters(parameters);
    return ok ? order_on_demand(facts, model, is_unload) : ok.error();
  }
  if (!facts.repository() || is_of_nodes_toml(facts, model))
    return std::nullopt;
  const auto* verb = is_unload ? "unload" : "load";
  const auto shown = model.substr(0, name_bytes_shown);
  const auto control = facts.models()->control;
  if (control != model_control::clients)
    return fail(errc::conflict, "failed to {} '{}': explicit model load / unload is not allowed{}",
                verb, shown, control == model_control::poll ? " if polling is enabled" : "");
  if (model.size() > limits::name_bytes_max)
    return fail(errc::model_not_found, "failed to {} '{}': there is no such model", verb, shown);
  if (auto ok = is_unload ? check_unload_parameters(parameters) : check_load_parameters(parameters);
      !ok)
    return ok.error();
  change_model order;
  order.model = model;
  order.what = is_unload ? model_order::unload : model_order::load;
  return order;
}

} // namespace baton::gateway
