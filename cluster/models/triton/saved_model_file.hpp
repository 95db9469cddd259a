// Reads the inputs and outputs of one signature of a TensorFlow SavedModel, without its graph and
// variables. Bounds hold for any file:
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/saved_model.proto
#pragma once

#include "cluster/models/triton/model_signature.hpp"

#include <istream>
#include <string>

namespace baton::cluster {

struct saved_model_choice {
  std::string tag = "serve"; // of the graph
  // Empty: serving_default, or else the first other signature by name, as Triton chooses.
  std::string signature{};
};

// Inputs and outputs by name. Errors: bad_config (not a SavedModel; too large; no such graph or
// signature; a tensor with no shape, no datatype for its type, or an invalid name).
result<model_signature> read_saved_model(std::istream& in, std::uint64_t size,
                                         const saved_model_choice& choice);
// Errors: also io_failed.
result<model_signature> read_saved_model(const std::filesystem::path& directory,
                                         const saved_model_choice& choice);

} // namespace baton::cluster
