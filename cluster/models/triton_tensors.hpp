// What config.pbtxt says of a model's inputs and outputs, as keys of [[workers]]. Pure.
#pragma once

#include "cluster/config/pbtxt_fields.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct triton_tensors {
  std::string toml;               // lines of a [[workers]] table
  std::vector<std::string> notes; // what a reader of it is to know
};

// `config`: of a model, as a whole; `platform`: what serves it. Errors: bad_config (a value is none
// of those that there are).
result<triton_tensors> import_triton_tensors(pbtxt_fields& config, std::string_view platform);

} // namespace baton::cluster
