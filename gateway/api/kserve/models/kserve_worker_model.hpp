// A worker model's metadata in the format of the KServe v2 protocol and Triton: JSON, which is also
// the JSON of gRPC messages. Pure except that it reads the gateway state.
#pragma once

#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// Finds a model by name and version (empty: the newest). Nothing: no worker model has the name.
// Errors: model_not_found.
std::optional<result<worker_view>>
kserve_worker_named(const gateway_state& facts, std::string_view name, std::string_view version);

kserve_standing worker_standing(const worker_view& of, const snapshot& now);
std::string worker_metadata_body(const gateway_state& facts, const worker_view& of);
std::string worker_config_body(const worker_view& of);
// All models, of both kinds.
std::vector<kserve_standing> all_standings(const gateway_state& facts, const snapshot& now);
std::vector<model_statistics> all_statistics(const gateway_state& facts, const snapshot& now);
// One worker model: all its versions, or the given one.
std::vector<model_statistics> statistics_of_worker(const gateway_state& facts,
                                                   std::string_view name, std::string_view version);
// As check_loaded. Errors: not_ready.
result<void> check_worker_loaded(const worker_view& of, const snapshot& now);

} // namespace baton::gateway
