// Tensors as stored in a model file: types with their GGUF numbers and block layouts, and a view of
// one tensor's bytes. Includes the scalar decoder, the reference for faster kernels. Used by the
// file readers and the engines' loaders. It owns no memory and allocates only names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::model {

// Numbers as in the GGUF specification (ggml_type): read from files, so never renumbered. The last
// ones are not of GGUF: safetensors have them, and other tensors beside them give their meaning.
enum class tensor_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  u8 = 0x10000,
  f8_e4m3 = 0x10001,
  f8_e8m0 = 0x10002,
};

struct tensor_traits {
  tensor_type type;
  std::string_view name;        // "Q4_1"
  std::uint32_t block_elements; // a row is a whole number of blocks
  std::uint32_t block_bytes;
  bool is_supported; // dequantize_row decodes it; for others only the size is known
};

// All known types of GGUF, by number.
std::span<const tensor_traits> tensor_type_table() noexcept;
const tensor_traits& tensor_type_traits(tensor_type type) noexcept;
// nullopt for a number that GGUF does not have.
std::optional<tensor_type> tensor_type_from(std::uint32_t number) noexcept;
// "Q4_1, Q8_0, ...": for messages that list the accepted types.
std::string supported_tensor_types();

// One tensor of an open file. `bytes` belongs to the model_file that returned the view.
struct tensor_view {
  std::string name;
  tensor_type type = tensor_type::f32;
  // GGUF order: shape[0] is the contiguous dimension (K, the input of a matrix), shape[1] its rows
  // (N, the output). One to four dimensions, none of them zero.
  std::vector<std::uint64_t> shape;
  // size_bytes() without padding; empty if the rows are assembled when copied.
  std::span<const std::byte> bytes;

  std::uint64_t columns() const noexcept { return shape.empty() ? 0 : shape[0]; }
  std::uint64_t rows() const noexcept;
  std::uint64_t elements() const noexcept { return rows() * columns(); }
  std::uint64_t row_bytes() const noexcept;
  std::uint64_t size_bytes() const noexcept { return rows() * row_bytes(); }
  // Requires: index < rows().
  std::span<const std::byte> row(std::uint64_t index) const;
};

// Decodes `n` elements of one row into float32, block by block in file order. This is the reference
// for faster kernels. Requires: n is a multiple of the type's block_elements, the type is
// supported, src holds n / block_elements blocks (any alignment), dst holds n floats.
void dequantize_row(tensor_type type, const std::byte* src, float* dst, std::size_t n);

// IEEE 754 binary16 and bfloat16 in portable arithmetic, including denormals, infinities and NaN.
// To the narrow format: round to nearest, ties to even; a NaN stays a (quiet) NaN.
float f16_to_f32(std::uint16_t half) noexcept;
std::uint16_t f32_to_f16(float value) noexcept;
float bf16_to_f32(std::uint16_t brain) noexcept;
std::uint16_t f32_to_bf16(float value) noexcept;

} // namespace baton::model
