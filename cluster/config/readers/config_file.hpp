// Reads nodes.toml, the operator's configuration. This is the product's only reader of it. An
// unknown key is an error that suggests the nearest valid name; every value is range-checked.
#pragma once

#include "cluster/config/config.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace baton::cluster {

// A whole text file of an operator. Errors: io_failed, bad_config (too large).
result<std::string> read_config_file(const std::filesystem::path& file);
// Errors: io_failed, bad_config, unknown_key; messages contain file:line and the key.
result<cluster_config> load_config(const std::filesystem::path& file);
// The same from text; `origin` replaces the file's name in messages.
result<cluster_config> parse_config(std::string_view text, const std::string& origin);

} // namespace baton::cluster
