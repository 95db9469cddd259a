// Reads the table of one model of nodes.toml.
#pragma once

#include "cluster/config/config.hpp"

#include <toml++/toml.h>

#include <string>
#include <vector>

namespace baton::cluster {

// `table`: [model], or one of [[models]]; null: it is missing. `path`: its name in messages. With
// models_dir it is the pattern of all models there, without a name and a path; `files`: those of
// them that are named. Errors: bad_config, unknown_key.
result<void> read_model(const toml::table* table, const std::string& path,
                        const std::string& origin, model_config& m,
                        std::vector<std::string>& files);

} // namespace baton::cluster
