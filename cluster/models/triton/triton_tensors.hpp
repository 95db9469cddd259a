// Translates inputs and outputs of config.pbtxt to keys of [[workers]]. Pure.
#pragma once

#include "cluster/formats/pbtxt_fields.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct triton_tensors {
  std::string toml;               // lines of a [[workers]] table
  std::vector<std::string> notes; // what a reader of the import should know
};

// `config`: the whole config.pbtxt; `platform`: what serves the model. Errors: bad_config (an
// invalid value).
result<triton_tensors> import_triton_tensors(pbtxt_fields& config, std::string_view platform);

} // namespace baton::cluster
