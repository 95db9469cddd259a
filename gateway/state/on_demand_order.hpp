// A client's order to load or unload a model that is loaded on demand. Pure, except that it reads
// the gateway's state.
#pragma once

#include "schema/result.hpp"
#include "schema/served_models.hpp"

#include <string>

namespace baton::gateway {

class gateway_state;

// Whether a language model of this name, or alias, is loaded on demand.
bool is_on_demand(const gateway_state& facts, const std::string& model);
// The order to the root. Errors: model_not_found, draining, not_ready, conflict (the model is
// always loaded).
result<change_model> order_on_demand(const gateway_state& facts, const std::string& model,
                                     bool is_unload);

} // namespace baton::gateway
