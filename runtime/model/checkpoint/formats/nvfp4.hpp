// Matrices of NVFP4: numbers of E2M1 with a scale of E4M3 for 16 inputs, and a float32 scale for
// all. `X.weight` [out, in] is replaced by, in compressed-tensors or in modelopt:
//
//   `X.weight_packed`  or  `X.weight`          U8 [out, in / 2]         two inputs per byte
//   `X.weight_scale`                           F8_E4M3 [out, in / 16]
//   `X.weight_global_scale`                    F32 [1]                  divides the other scale
//                          `X.weight_scale_2`  F32 [] or [1]            multiplies it
//
// Rows are read as BF16, rounded to nearest: no block type of GGUF has such scales.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

namespace baton::model {

class nvfp4_format final : public quantised_format {
public:
  explicit nvfp4_format(bool is_of_modelopt) : is_of_modelopt_(is_of_modelopt) {}

  std::string label() const override { return "NVFP4"; }
  std::string_view codes_shown() const noexcept override {
    return is_of_modelopt_ ? "weight of U8" : "weight_packed";
  }
  std::optional<module_part> part_of(const tensor_view& stored) const override;
  result<matrix_pointer> open(const module_parts& parts, file_span files) const override;

private:
  bool is_of_modelopt_;
};

// "modelopt" with NVFP4 or FP8. Errors: unsupported_model (names the field and its value).
result<format_pointer> read_modelopt_format(const json& quantization);

} // namespace baton::model
