// What this server says of a worker model in the words of the KServe v2 protocol and of Triton:
// JSON that is also the JSON of the messages of gRPC. Pure but for the board.
#pragma once

#include "gateway/api/kserve/kserve_model.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The model that is asked for by name and version (empty: the newest). Nothing: no worker model has
// that name. Errors: model_not_found.
std::optional<result<worker_view>> kserve_worker_named(const board& facts, std::string_view name,
                                                       std::string_view version);

kserve_standing worker_standing(const worker_view& of, const snapshot& now);
std::string worker_metadata_body(const board& facts, const worker_view& of);
std::string worker_config_body(const worker_view& of);
// Of all models, of whichever kind.
std::vector<kserve_standing> all_standings(const board& facts, const snapshot& now);
std::vector<model_statistics> all_statistics(const board& facts, const snapshot& now);
// Of one worker model: of all its versions, or the one that is named.
std::vector<model_statistics> statistics_of_worker(const board& facts, std::string_view name,
                                                   std::string_view version);
// As check_loaded. Errors: not_ready.
result<void> check_worker_loaded(const worker_view& of, const snapshot& now);

} // namespace baton::gateway
