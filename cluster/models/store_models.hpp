// What is served of an archive of a model store: a version of a model, by the same translation as
// `cluster import`'s, with what the client says who registers it. Pure.
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

// `name`: empty is the archive's own. Where both say something, the archive's model-config.yaml
// counts, as with TorchServe, but for the number of workers: `workers` where neither says it.
// Errors: bad_config; invalid_value, of `said`.
result<stored_model> model_of_archive(const model_archive& archive, const std::string& name,
                                      const model_settings& said, const store_config& store,
                                      std::uint32_t workers);

} // namespace baton::cluster
