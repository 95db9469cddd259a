#include "gateway/state/on_demand_order.hpp"

#include "gateway/state/gateway_state.hpp"

namespace baton::gateway {

bool is_on_demand(const gateway_state& facts, const std::string& model) {
  const auto found = find_model(*facts.look(), facts.config().model_aliases, model);
  return !model.empty() && found && found->loads_on_demand;
}

result<change_model> order_on_demand(const gateway_state& facts, const std::string& model,
                                     bool is_unload) {
  const auto found = find_model(*facts.look(), facts.config().model_aliases, model);
  if (!found)
    return found.error();
  if (!found->loads_on_demand)
    return fail_param(errc::conflict, "model",
                      "the model '{}' is always loaded: load = \"on-demand\" in nodes.toml changes "
                      "that",
                      found->name);
  change_model order;
  order.model = found->name;
  order.what = is_unload ? model_order::unload : model_order::load;
  return order;
}

} // namespace baton::gateway
