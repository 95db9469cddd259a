// Matrices of whole numbers: weight = scale * (code - zero point), where consecutive or listed
// inputs of a row share a scale and a zero point. The formats differ in where they store the codes.
//
// Rows are read in the smallest block type of GGUF that holds the same numbers exactly: Q4_0, Q5_0
// or Q8_0, by the differences that can occur. There is none if the groups have no order, if the
// differences have more than 8 bits, or if float16 does not hold a scale. Then rows are read as
// floats of the scales' type, F16 or BF16, which rounds each product to nearest.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

namespace baton::model {

inline constexpr std::uint64_t word_bits = 32;   // of packed codes
inline constexpr std::uint64_t inputs_unit = 32; // of every row that an engine reads

// The scales and zero points of some rows, [rows, groups].
struct code_groups {
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
};

class code_matrix : public quantised_matrix {
public:
  tensor_view view() const override { return {{}, type_, {inputs_, outputs_}, {}}; }
  result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override;

protected:
  code_matrix() = default;

  // Codes of rows [first, first + count), [count, inputs].
  virtual result<std::vector<std::uint8_t>> read_codes(file_span files, std::uint64_t first,
                                                       std::uint64_t count) const = 0;
  virtual result<code_groups> read_groups(file_span files, std::uint64_t first,
                                          std::uint64_t count) const = 0;

  // Takes the sizes, checks them, reads all scales and zero points, and chooses the type. Requires:
  // groups > 0. `scale_type` is that of the files. Errors: io_failed, unsupported_model (names
  // `codes`).
  struct sizes {
    std::uint64_t inputs = 0, outputs = 0, groups = 0;
    std::uint32_t bits = 0;
  };
  result<void> prepare(const sizes& of, tensor_type scale_type, file_span files);
  // Reads the group of each input. Groups without order are kept. Requires: prepare() comes later.
  // Errors: io_failed, bad_model_file (names the tensor).
  result<void> read_order(const stored_tensor& g_idx, std::uint64_t groups, file_span files);

  std::uint64_t inputs() const noexcept { return inputs_; }
  std::uint64_t outputs() const noexcept { return outputs_; }
  std::uint64_t groups() const noexcept { return groups_; }

private:
  void write_row(const std::uint8_t* codes, const float* scales, const std::uint8_t* zeros,
                 std::byte* out) const;

  tensor_type type_ = tensor_type::f16;
  std::uint64_t inputs_ = 0, outputs_ = 0, groups_ = 0;
  std::vector<std::uint32_t> group_of_; // of each input; empty if groups are consecutive
};

// Code `index` of words that hold whole codes, the first in the lowest bits. Requires: `bits`
// divides 32.
inline std::uint8_t code_at(const std::uint32_t* words, std::uint64_t stride, std::uint64_t index,
                            std::uint32_t bits) noexcept {
  const auto at = index * bits;
  return static_cast<std::uint8_t>(words[at / 32 * stride] >> (at % 32) & ((1U << bits) - 1U));
}

} // namespace baton::model
