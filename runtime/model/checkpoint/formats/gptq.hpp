// Matrices quantised to 2, 4 or 8 bits by GPTQ (arXiv 2210.17323), as AutoGPTQ and GPTQModel
// store them. `X.weight` [out, in] is replaced by:
//
//   `X.qweight`  I32 [in * bits / 32, out]      codes: in words, along a column.
//   `X.qzeros`   I32 [groups, out * bits / 32]  zero points: in words, along a row.
//   `X.scales`   F16 [groups, out]              weight = scale * (code - zero).
//   `X.g_idx`    I32 [in]                       the group of each input; optional.
#pragma once

#include "runtime/model/checkpoint/formats/code_matrix.hpp"

namespace baton::model {

struct gptq_config {
  std::uint32_t bits = 4;
  std::uint64_t group_size = 0; // inputs that share a scale and a zero point; 0: the whole row
  // checkpoint_format "gptq", not "gptq_v2": each zero point is stored minus one.
  bool has_lowered_zeros = true;
};

class gptq_format final : public quantised_format {
public:
  explicit gptq_format(const gptq_config& config) : config_(config) {}

  const gptq_config& config() const noexcept { return config_; }
  std::string label() const override;
  std::string settings() const override;
  std::string_view codes_shown() const noexcept override { return "qweight"; }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  gptq_config config_;
};

// Errors: unsupported_model (names the field and its value).
result<gptq_config> read_gptq_config(const json& quantization);
result<format_pointer> read_gptq_format(const json& quantization);
// -1 and multiples of 32; 0 for -1. Errors: unsupported_model.
result<std::uint64_t> group_size_of(const json& quantization);
// The parts of GPTQ and AWQ.
std::optional<module_part> part_of_qweight(const tensor_view& stored);

} // namespace baton::model
