// What an ONNX file says of its inputs and outputs, read without the weights between them, with
// bounds of what is read and kept whatever the file says. The format is protobuf's:
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include "cluster/models/model_signature.hpp"

#include <cstdint>
#include <filesystem>
#include <istream>

namespace baton::cluster {

// Inputs that have a value in the file are none. `size`: bytes that `in` has, which can be sought
// in. Errors: bad_config (it is no ONNX file, or says more than there is room for; a tensor has no
// shape, a type for which there is no datatype, or a name that none can have).
result<model_signature> read_onnx_signature(std::istream& in, std::uint64_t size);
// Errors: also io_failed. What is no regular file is not opened.
result<model_signature> read_onnx_signature(const std::filesystem::path& file);

} // namespace baton::cluster
