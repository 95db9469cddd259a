// [model_repository] and [model_store] of nodes.toml: a model repository of Triton that is served
// as it is, and a model store of TorchServe's.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/config/toml_section.hpp"

namespace baton::cluster {

// The tables, or null. Errors: bad_config, unknown_key.
result<void> read_changing_models(const toml::node* repository, const toml::node* store,
                                  const std::string& origin, cluster_config& config);

// As control_mode has it.
std::string_view name_of(model_control mode) noexcept;

// One of load_models: "all", "NAME.mar", "MODEL=NAME.mar", and URLs for NAME.mar.
struct store_load {
  std::string_view model; // empty: the archive's own
  std::string_view archive;
};
store_load read_store_load(std::string_view text) noexcept;
bool is_store_load(std::string_view text) noexcept;
// Whether this names an archive, or the directory of one, within a store.
bool is_archive_name(std::string_view text) noexcept;

} // namespace baton::cluster
