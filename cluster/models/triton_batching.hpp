// What config.pbtxt says of batches and queues (its "dynamic batcher"), as keys of [[workers]].
// Pure.
#pragma once

#include "cluster/config/pbtxt_fields.hpp"
#include "schema/result.hpp"

#include <string>
#include <vector>

namespace baton::cluster {

// Where config.pbtxt says none: worth a line of an import, and nothing that was left out.
inline constexpr std::string_view queue_default_note =
    "max_queued is 100, our default: a queue has a bound here";

struct triton_batching {
  std::string toml;               // lines of a [[workers]] table
  std::vector<std::string> notes; // what a reader of it is to know
};

// `config`: of a model, as a whole. Errors: bad_config (a value is none of those that there are).
result<triton_batching> import_triton_batching(pbtxt_fields& config);

} // namespace baton::cluster
