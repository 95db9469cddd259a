// The model repository in the words of Triton: how its models stand, and what loading and unloading
// one of them asks of the root. Pure but for the board.
#pragma once

#include "gateway/api/kserve/kserve_model.hpp"
#include "gateway/base/json_reader.hpp"

#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

class board;

// Adds what the root tells of worker models and `all` has not, and what it says of those that are
// there.
void add_repository(std::vector<kserve_standing>& all, const served_models& told,
                    const snapshot& now);

// What the root is asked for a load or unload of `model`. Nothing: it is no model of a repository,
// but one of nodes.toml, or there is no repository. `parameters`: of the call; null or an object.
// Errors: conflict (control_mode), invalid_value, unsupported_parameter (named).
std::optional<result<change_model>> plan_model_change(const board& facts, const std::string& model,
                                                      bool is_unload, const json& parameters);

} // namespace baton::gateway
