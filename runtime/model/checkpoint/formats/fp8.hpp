// Matrices of 8-bit floats (E4M3, arXiv 2209.05433) with scales, as DeepSeek and Qwen publish them,
// and the quantisers of vLLM. `X.weight` [out, in] is F8_E4M3, and beside it is
//
//   `X.weight_scale_inv`  or  `X.weight_scale`   weight = number * scale.
//
// There is one scale for the matrix, for each output, or for each block of "weight_block_size".
// Blocks at the borders may be smaller. No block type of GGUF holds these
// numbers, so rows are read as BF16, which rounds their product to nearest, as transformers does.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

#include <utility>

namespace baton::model {

// The rows and columns that share a scale.
using fp8_block = std::pair<std::uint64_t, std::uint64_t>;

class fp8_format final : public quantised_format {
public:
  // Without a block the scales are of the matrix or of its outputs.
  explicit fp8_format(std::optional<fp8_block> block) : block_(block) {}

  std::string label() const override;
  std::string_view codes_shown() const noexcept override { return "weight of F8_E4M3"; }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  std::optional<fp8_block> block_;
};

// Errors: unsupported_model (names the field and its value).
result<format_pointer> read_fp8_format(const json& quantization);
// A list of two positive numbers. Errors: unsupported_model.
result<fp8_block> fp8_block_of(std::string_view field, const json& value);

// The number that a byte is.
float f8_e4m3_to_f32(std::uint8_t bits) noexcept;

} // namespace baton::model
