// Matrices of MXFP4 (OCP's microscaling formats), as OpenAI publishes the experts of gpt-oss. A
// tensor X [experts, in, out] of transformers is replaced by:
//
//   `X_blocks`  U8 [experts, out, in / 32, 16]  numbers of E2M1, two inputs per byte
//   `X_scales`  U8 [experts, out, in / 32]      exponents of two, plus 127
//
// compressed-tensors has `X.weight_packed` U8 [out, in / 2] and `X.weight_scale` U8 [out, in / 32]
// in place of `X.weight` (mxfp4-pack-quantized).
//
// Rows are read as MXFP4 of GGUF, which holds the same numbers in another order of nibbles.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

namespace baton::model {

class mxfp4_format final : public quantised_format {
public:
  explicit mxfp4_format(bool is_of_experts) : is_of_experts_(is_of_experts) {}

  std::string label() const override { return "MXFP4"; }
  std::string_view codes_shown() const noexcept override {
    return is_of_experts_ ? "blocks" : "weight_packed";
  }
  std::string published_of(const std::string& module) const override {
    return is_of_experts_ ? module : quantised_format::published_of(module);
  }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  bool is_of_experts_; // gpt-oss
};

result<format_pointer> read_mxfp4_format(const json& quantization);

} // namespace baton::model
