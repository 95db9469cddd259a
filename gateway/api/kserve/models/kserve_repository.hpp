// The model repository in Triton's format: the state of its models, and the root's orders to load
// and unload them. Pure except that it reads the gateway state.
#pragma once

#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/request/json_reader.hpp"

#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

class gateway_state;

// Adds the worker models that the root reports and `all` lacks; completes those that it has.
void add_repository(std::vector<kserve_standing>& all, const served_models& served,
                    const snapshot& now);

// `all`: the parameters of a load, null or an object. None is supported: `config` and `file:PATH`
// of Triton would let a client choose what runs here. Errors: unsupported_parameter (with the
// name).
result<void> check_load_parameters(const json& all);

// The order to the root for a load or unload of `model`. Nothing: the model is from nodes.toml and
// always loaded, or there is no repository. `parameters`: of the call; null or an object. Errors:
// conflict (control_mode), invalid_value, unsupported_parameter (with the name).
std::optional<result<change_model>> plan_model_change(const gateway_state& facts,
                                                      const std::string& model, bool is_unload,
                                                      const json& parameters);

} // namespace baton::gateway
