// The table of tensor types, and the sizes of tensors.
#include "runtime/model/tensors/tensor.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>

namespace baton::model {
namespace {

using enum tensor_type;
constexpr std::array table = {
    tensor_traits{f32, "F32", 1, 4, true},
    tensor_traits{f16, "F16", 1, 2, true},
    tensor_traits{q4_0, "Q4_0", 32, 18, true},
    tensor_traits{q4_1, "Q4_1", 32, 20, true},
    tensor_traits{q5_0, "Q5_0", 32, 22, true},
    tensor_traits{q5_1, "Q5_1", 32, 24, true},
    tensor_traits{q8_0, "Q8_0", 32, 34, true},
    tensor_traits{q2_k, "Q2_K", 256, 84, true},
    tensor_traits{q3_k, "Q3_K", 256, 110, true},
    tensor_traits{q4_k, "Q4_K", 256, 144, true},
    tensor_traits{q5_k, "Q5_K", 256, 176, true},
    tensor_traits{q6_k, "Q6_K", 256, 210, true},
    tensor_traits{q8_k, "Q8_K", 256, 292, false},
    tensor_traits{iq2_xxs, "IQ2_XXS", 256, 66, true},
    tensor_traits{iq2_xs, "IQ2_XS", 256, 74, true},
    tensor_traits{iq3_xxs, "IQ3_XXS", 256, 98, true},
    tensor_traits{iq1_s, "IQ1_S", 256, 50, true},
    tensor_traits{iq4_nl, "IQ4_NL", 32, 18, true},
    tensor_traits{iq3_s, "IQ3_S", 256, 110, true},
    tensor_traits{iq2_s, "IQ2_S", 256, 82, true},
    tensor_traits{iq4_xs, "IQ4_XS", 256, 136, true},
    tensor_traits{i8, "I8", 1, 1, false},
    tensor_traits{i16, "I16", 1, 2, false},
    tensor_traits{i32, "I32", 1, 4, false},
    tensor_traits{i64, "I64", 1, 8, false},
    tensor_traits{f64, "F64", 1, 8, false},
    tensor_traits{iq1_m, "IQ1_M", 256, 56, true},
    tensor_traits{bf16, "BF16", 1, 2, true},
    tensor_traits{tq1_0, "TQ1_0", 256, 54, true},
    tensor_traits{tq2_0, "TQ2_0", 256, 66, true},
    tensor_traits{mxfp4, "MXFP4", 32, 17, true},
    tensor_traits{u8, "U8", 1, 1, false},
    tensor_traits{f8_e4m3, "F8_E4M3", 1, 1, false},
    tensor_traits{f8_e8m0, "F8_E8M0", 1, 1, false},
};
constexpr std::size_t other_count = 3; // not of GGUF
static_assert(std::ranges::is_sorted(table, {}, &tensor_traits::type));

const tensor_traits* row_of(tensor_type type) noexcept {
  const auto it = std::ranges::lower_bound(table, type, {}, &tensor_traits::type);
  return it != table.end() && it->type == type ? &*it : nullptr;
}

} // namespace

std::span<const tensor_traits> tensor_type_table() noexcept {
  return std::span(table).first(table.size() - other_count);
}

const tensor_traits& tensor_type_traits(tensor_type type) noexcept {
  const auto* row = row_of(type);
  ENSURE(row != nullptr, "tensor type {} has no row", static_cast<std::uint32_t>(type));
  return *row;
}

std::optional<tensor_type> tensor_type_from(std::uint32_t number) noexcept {
  const auto* row = row_of(static_cast<tensor_type>(number));
  return row != nullptr && row->type < u8 ? std::optional(row->type) : std::nullopt;
}

std::string supported_tensor_types() {
  std::string names;
  for (const auto& row : table) {
    if (row.is_supported) {
      names += names.empty() ? "" : ", ";
      names += row.name;
    }
  }
  return names;
}

std::uint64_t tensor_view::rows() const noexcept {
  std::uint64_t count = shape.empty() ? 0 : 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    count *= shape[i];
  }
  return count;
}

std::uint64_t tensor_view::row_bytes() const noexcept {
  const auto& traits = tensor_type_traits(type);
  return columns() / traits.block_elements * traits.block_bytes;
}

std::span<const std::byte> tensor_view::row(std::uint64_t index) const {
  ENSURE(index < rows(), "row {} of tensor '{}', which has {}", index, name, rows());
  return bytes.subspan(index * row_bytes(), row_bytes());
}

} // namespace baton::model
