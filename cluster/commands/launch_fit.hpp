// The nodes.toml of one model whose context and KV cache fit into this machine's memory, for
// `cluster run MODEL` and `cluster up MODEL`.
#pragma once

#include "cluster/config/imported/model_launch.hpp"

#include <string>

namespace baton::cluster {

// The text of the nodes.toml. A line on stderr says what was chosen. Models on devices with their
// own memory, and files that cannot be read, are left to the start. If processes of that cluster
// are left from an earlier root, the choice is the one of their start. Errors: those of config_of
// and fit_model.
result<std::string> fitted_config_of(model_launch of);

} // namespace baton::cluster
