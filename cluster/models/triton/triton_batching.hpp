// Translates batching and queue settings of config.pbtxt (the "dynamic batcher") to keys of
// [[workers]]. Pure.
#pragma once

#include "cluster/formats/pbtxt_fields.hpp"
#include "schema/result.hpp"

#include <string>
#include <vector>

namespace baton::cluster {

// Note of an import if config.pbtxt sets no bound. It does not mean that something was left out.
inline constexpr std::string_view queue_default_note =
    "max_queued is 100, our default: a queue has a bound here";

struct triton_batching {
  std::string toml;               // lines of a [[workers]] table
  std::vector<std::string> notes; // what a reader of the import should know
};

// `config`: the whole config.pbtxt of a model. Errors: bad_config (an invalid value).
result<triton_batching> import_triton_batching(pbtxt_fields& config);

} // namespace baton::cluster
