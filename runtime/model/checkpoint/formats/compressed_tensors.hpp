// Matrices as the library compressed-tensors stores them (llm-compressor, vLLM). `X.weight`
// [out, in] is replaced by one of:
//
//   pack-quantized    `X.weight_packed`      I32 [out, in * bits / 32]     codes of 4 or 8 bits
//                     `X.weight_scale`       [out, groups]
//                     `X.weight_zero_point`  I32 [out * bits / 32, groups] if not symmetric
//                     `X.weight_g_idx`       I32 [in]                      the group of each input
//                     `X.weight_shape`       I64 or I32 [2]                out, in
//   int-quantized     `X.weight`             I8 [out, in]
//                     `X.weight_scale`       [out, 1], [out] or [1]
//   float-quantized   as FP8 (fp8.hpp)
//   nvfp4-pack-quantized, mxfp4-pack-quantized  (nvfp4.hpp, mxfp4.hpp)
//
// naive-quantized is int-quantized or float-quantized. weight = scale * (code - zero point), where
// codes and zero points of I32 words are stored plus half of their range.
#pragma once

#include "runtime/model/checkpoint/formats/code_matrix.hpp"

namespace baton::model {

// Errors: unsupported_model (names the field and its value).
result<format_pointer> read_compressed_tensors_format(const json& quantization);

} // namespace baton::model
