// Reads `models` of TorchServe's config.properties: settings of archives by their name and version
// (https://pytorch.org/serve/configuration.html). Pure.
#pragma once

#include "cluster/config/config.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

// {"noop": {"1.0": {"batchSize": 4}}}. Errors: bad_config. Appends what is left out to `notes`.
result<std::vector<archive_settings>> parse_torchserve_models(std::string_view json,
                                                              std::vector<std::string>& notes);
// The [[model_store.models]] tables.
std::string archive_tables(const std::vector<archive_settings>& all);

} // namespace baton::cluster
