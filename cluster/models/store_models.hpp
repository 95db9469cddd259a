// Translates an archive of a model store to a version of a model, as `cluster import` does, with
// the settings of the client that registers it. Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/models/model_archive.hpp"
#include "cluster/models/repository_scan.hpp"

#include <string>

namespace baton::cluster {

struct stored_model {
  std::string name;
  scanned_version version;
};

// What [[model_store.models]] has for the archive; empty if nothing.
model_settings configured_of(const model_archive& archive, const store_config& store);

// `name`: empty means the archive's own. The archive's model-config.yaml overrides `requested`, as
// in TorchServe, except for the number of workers. `workers`: the count if neither sets one. Other
// values that neither sets are those of [[model_store.models]], then the store's.
// Errors: bad_config; invalid_value, of `requested`.
result<stored_model> model_of_archive(const model_archive& archive, const std::string& name,
                                      const model_settings& requested, const store_config& store,
                                      std::uint32_t workers);

} // namespace baton::cluster
