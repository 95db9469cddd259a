// [model_repository] and [model_store] of nodes.toml: a Triton model repository that is served
// unchanged, and a TorchServe model store.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/formats/toml_section.hpp"

namespace baton::cluster {

// Either node may be null. Errors: bad_config, unknown_key.
result<void> read_changing_models(const toml::node* repository, const toml::node* store,
                                  const std::string& origin, cluster_config& config);

// The value of control_mode.
std::string_view name_of(model_control mode) noexcept;

// An entry of load_models: "all", "NAME.mar", "MODEL=NAME.mar", and URLs for NAME.mar.
struct store_load {
  std::string_view model; // empty: the archive's model name
  std::string_view archive;
};
store_load read_store_load(std::string_view text) noexcept;
bool is_store_load(std::string_view text) noexcept;
// Whether this is a valid name of an archive or its directory in a store.
bool is_archive_name(std::string_view text) noexcept;

} // namespace baton::cluster
