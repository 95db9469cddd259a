// What an ONNX file says of its inputs and outputs, read without the weights between them. The
// format is protobuf's: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include "gateway/worker_facts.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace baton::cluster {

struct onnx_signature {
  std::vector<gateway::worker_tensor> inputs, outputs; // of the graph; -1: any size
};

// Inputs that have a value in the file are none. Errors: io_failed; bad_config (it is no ONNX file,
// a tensor has no shape, or a type for which there is no datatype; names it).
result<onnx_signature> read_onnx_signature(const std::filesystem::path& file);

} // namespace baton::cluster
