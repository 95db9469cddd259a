// What a SavedModel of TensorFlow says of the inputs and outputs of one of its signatures, read
// without its graph and its variables, with bounds of what is read and kept whatever the file says:
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/saved_model.proto
#pragma once

#include "cluster/models/model_signature.hpp"

#include <istream>
#include <string>

namespace baton::cluster {

struct saved_model_choice {
  std::string tag = "serve"; // of the graph
  // Empty: serving_default, or the only other one by name, as Triton takes it.
  std::string signature{};
};

// Inputs and outputs by name. Errors: bad_config (it is no SavedModel, or says more than there is
// room for; it has no such graph or signature; a tensor has no shape, a type for which there is no
// datatype, or a name that none can have).
result<model_signature> read_saved_model(std::istream& in, std::uint64_t size,
                                         const saved_model_choice& choice);
// Errors: also io_failed.
result<model_signature> read_saved_model(const std::filesystem::path& directory,
                                         const saved_model_choice& choice);

} // namespace baton::cluster
