// Reads the table of one model of nodes.toml.
#pragma once

#include "cluster/config/config.hpp"

#include <toml++/toml.h>

#include <string>

namespace baton::cluster {

// `table`: [model], or one of [[models]]; null: it is missing. `path`: its name in messages.
// Errors: bad_config, unknown_key.
result<void> read_model(const toml::table* table, const std::string& path,
                        const std::string& origin, model_config& m);

} // namespace baton::cluster
