// Matrices quantised to 4 bits by AWQ (arXiv 2306.00978), as AutoAWQ stores them ("gemm").
// `X.weight` [out, in] is replaced by:
//
//   `X.qweight`  I32 [in, out / 8]        codes: eight outputs per word.
//   `X.qzeros`   I32 [groups, out / 8]    zero points: the same.
//   `X.scales`   F16 or BF16 [groups, out]  weight = scale * (code - zero).
//
// The nibbles of a word, from the low bits, are of its outputs 0, 2, 4, 6, 1, 3, 5, 7.
#pragma once

#include "runtime/model/checkpoint/formats/code_matrix.hpp"

namespace baton::model {

class awq_format final : public quantised_format {
public:
  // Inputs that share a scale and a zero point; 0: the whole row.
  explicit awq_format(std::uint64_t group_size) : group_size_(group_size) {}

  std::string label() const override;
  std::string_view codes_shown() const noexcept override { return "qweight"; }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  std::uint64_t group_size_;
};

// Errors: unsupported_model (names the field and its value).
result<format_pointer> read_awq_format(const json& quantization);

} // namespace baton::model
