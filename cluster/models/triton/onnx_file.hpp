// Reads the inputs and outputs that an ONNX file declares, and skips the weights. Bounds hold for
// any file. The format is protobuf's:
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include "cluster/models/triton/model_signature.hpp"

#include <cstdint>
#include <filesystem>
#include <istream>

namespace baton::cluster {

// Omits inputs that have a value in the file. `size`: bytes in `in`, which is seekable. Errors:
// bad_config (not an ONNX file, or too large; a tensor without a shape, with a type that has no
// datatype, or with an invalid name).
result<model_signature> read_onnx_signature(std::istream& in, std::uint64_t size);
// Errors: also io_failed. A file that is not regular is not opened.
result<model_signature> read_onnx_signature(const std::filesystem::path& file);

} // namespace baton::cluster
