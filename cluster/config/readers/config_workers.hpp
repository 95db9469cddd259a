// [[workers]] of nodes.toml: models that the operator's own processes serve beside the LLMs.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/formats/toml_section.hpp"

namespace baton::cluster {

// `node`: the array, or null. Errors: bad_config, unknown_key.
result<void> read_workers(const toml::node* node, const std::string& origin,
                          cluster_config& config);
// Parses one [[workers]] table. `count` is not checked against the number of gateways. Errors:
// bad_config, unknown_key.
result<worker_config> parse_worker(std::string_view text, const std::string& origin);

} // namespace baton::cluster
