#include "runtime/model/checkpoint/formats/code_matrix.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace baton::model {
namespace {

constexpr std::uint64_t block_inputs = 32;        // of Q4_0, Q5_0 and Q8_0
constexpr std::uint64_t codes_together = 1 << 22; // read at a time, in bytes

using block_codes = std::array<int, block_inputs>; // code - zero point

void write_scale(float scale, std::byte* out) {
  const auto half = f32_to_f16(scale); // exact: prepare() has checked it
  std::memcpy(out, &half, sizeof half);
}

// Codes k and k + 16 share a byte.
void write_nibbles(const block_codes& codes, int offset, std::byte* out) {
  for (std::uint64_t k = 0; k < block_inputs / 2; ++k) {
    const auto low = static_cast<unsigned>(codes[k] + offset) & 15U;
    const auto high = static_cast<unsigned>(codes[k + 16] + offset) & 15U;
    out[k] = static_cast<std::byte>(low | high << 4U);
  }
}

// Q4_0 [f16 d][nibbles]: d * (q - 8). Q5_0 [f16 d][fifth bits][nibbles]: d * (q - 16).
// Q8_0 [f16 d][bytes]: d * q.
void write_code_block(tensor_type type, float scale, const block_codes& codes, std::byte* out) {
  write_scale(scale, out);
  out += sizeof(std::uint16_t);
  if (type == tensor_type::q4_0) {
    write_nibbles(codes, 8, out);
    return;
  }
  if (type == tensor_type::q5_0) {
    std::uint32_t fifth_bits = 0;
    for (std::uint64_t k = 0; k < block_inputs; ++k) {
      fifth_bits |= (static_cast<unsigned>(codes[k] + 16) >> 4U) << k;
    }
    std::memcpy(out, &fifth_bits, sizeof fifth_bits);
    write_nibbles(codes, 16, out + sizeof fifth_bits);
    return;
  }
  ENSURE(type == tensor_type::q8_0, "codes in {}", tensor_type_traits(type).name);
  for (std::uint64_t k = 0; k < block_inputs; ++k) {
    out[k] = static_cast<std::byte>(codes[k]);
  }
}

bool fits_f16(float scale) {
  return f16_to_f32(f32_to_f16(scale)) == scale;
}

// The smallest block type for differences of [lowest, highest].
std::optional<tensor_type> block_type_of(int lowest, int highest) {
  if (lowest >= -8 && highest <= 7) {
    return tensor_type::q4_0;
  }
  if (lowest >= -16 && highest <= 15) {
    return tensor_type::q5_0;
  }
  return lowest >= -128 && highest <= 127 ? std::optional(tensor_type::q8_0) : std::nullopt;
}

} // namespace

result<void> code_matrix::read_order(const stored_tensor& g_idx, std::uint64_t groups,
                                     file_span files) {
  auto order = elements_of<std::uint32_t>(g_idx, files, 0, g_idx.view.elements());
  if (!order) {
    return order.error();
  }
  const auto in = order->size(), per_group = in / groups;
  bool is_consecutive = true;
  for (std::uint64_t input = 0; input < in; ++input) {
    const auto group = (*order)[input];
    if (group >= groups) {
      return fail(errc::bad_model_file, "tensor '{}' has input {} in group {} of {}",
                  g_idx.view.name, input, group, groups);
    }
    is_consecutive = is_consecutive && group == input / per_group;
  }
  if (!is_consecutive) {
    group_of_ = *std::move(order);
  }
  return {};
}

result<void> code_matrix::prepare(const sizes& of, tensor_type scale_type, file_span files) {
  inputs_ = of.inputs;
  outputs_ = of.outputs;
  groups_ = of.groups;
  const auto all = read_groups(files, 0, outputs_);
  if (!all) {
    return all.error();
  }
  const auto [least, most] = std::ranges::minmax(all->zeros);
  const auto type = block_type_of(-int{most}, (1 << of.bits) - 1 - int{least});
  const bool has_blocks = group_of_.empty() && inputs_ / groups_ % block_inputs == 0 &&
                          std::ranges::all_of(all->scales, fits_f16);
  const auto rounded = scale_type == tensor_type::f16 ? tensor_type::f16 : tensor_type::bf16;
  type_ = type && has_blocks ? *type : rounded;
  return {};
}

void code_matrix::write_row(const std::uint8_t* codes, const float* scales,
                            const std::uint8_t* zeros, std::byte* out) const {
  const auto per_group = inputs_ / groups_;
  const auto difference = [&](std::uint64_t input, std::uint64_t group) {
    return int{codes[input]} - int{zeros[group]};
  };
  if (type_ == tensor_type::f16 || type_ == tensor_type::bf16) {
    for (std::uint64_t input = 0; input < inputs_; ++input, out += sizeof(std::uint16_t)) {
      const auto group = group_of_.empty() ? input / per_group : group_of_[input];
      const auto value = scales[group] * static_cast<float>(difference(input, group));
      const auto half = type_ == tensor_type::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(out, &half, sizeof half);
    }
    return;
  }
  block_codes block{};
  for (std::uint64_t input = 0; input < inputs_; input += block_inputs) {
    const auto group = input / per_group;
    for (std::uint64_t k = 0; k < block_inputs; ++k) {
      block[k] = difference(input + k, group);
    }
    write_code_block(type_, scales[group], block, out);
    out += tensor_type_traits(type_).block_bytes;
  }
}

result<void> code_matrix::copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                                    std::span<std::byte> out) const {
  const auto row_bytes = view().row_bytes();
  const auto together = std::max<std::uint64_t>(codes_together / inputs_, 1);
  for (std::uint64_t done = 0; done < count;) {
    const auto now = std::min(together, count - done);
    const auto codes = read_codes(files, first + done, now);
    if (!codes) {
      return codes.error();
    }
    const auto of_groups = read_groups(files, first + done, now);
    if (!of_groups) {
      return of_groups.error();
    }
    for (std::uint64_t row = 0; row < now; ++row) {
      write_row(codes->data() + row * inputs_, of_groups->scales.data() + row * groups_,
                of_groups->zeros.data() + row * groups_, out.data() + (done + row) * row_bytes);
    }
    done += now;
  }
  return {};
}

} // namespace baton::model
