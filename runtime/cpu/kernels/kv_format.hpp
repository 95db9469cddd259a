// The layout of keys and values in memory, as data. It parameterises the KV memory and the append
// and attention kernels. A page holds 64 positions of one layer and kv head: the keys
// [head_size][64], then the values [64][head_size].
//
// `q8_0` is GGUF's: 32 dimensions of a position share a float16 scale, element = code * scale.
// Large dimensions of a key only affect the precision of their neighbours. The scales follow the
// codes of their matrix, [blocks of 32 dimensions][64], for keys and values: one vector covers 16
// positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::cpu {

// Positions of a KV block. Attention uses chunks of the same size at absolute positions, so a row's
// result does not depend on the chunking of its prefill.
inline constexpr std::uint32_t kv_block_positions = 64;
inline constexpr std::size_t kv_scale_dimensions = 32;

enum class kv_format : std::uint8_t { f16 = 0, f32 = 1, q8_0 = 2 };
inline constexpr std::size_t kv_format_count = 3;

// Always inlined: files for several ISAs share this header.
struct kv_layout {
  std::size_t element_bytes = 0;
  bool has_scales = false;

  [[gnu::always_inline]] static constexpr std::size_t scale_blocks(std::size_t head_size) {
    return (head_size + kv_scale_dimensions - 1) / kv_scale_dimensions;
  }
  [[gnu::always_inline]] constexpr std::size_t element_matrix_bytes(std::size_t head_size) const {
    return kv_block_positions * head_size * element_bytes;
  }
  // Bytes of the keys or of the values, with their scales; a multiple of 64.
  [[gnu::always_inline]] constexpr std::size_t matrix_bytes(std::size_t head_size) const {
    const std::size_t scales = has_scales ? scale_blocks(head_size) : 0;
    return element_matrix_bytes(head_size) + kv_block_positions * scales * sizeof(std::uint16_t);
  }
};

[[gnu::always_inline]] constexpr kv_layout layout_of(kv_format format) {
  switch (format) {
  case kv_format::f16:
    return {.element_bytes = 2};
  case kv_format::f32:
    return {.element_bytes = 4};
  case kv_format::q8_0:
    return {.element_bytes = 1, .has_scales = true};
  }
  return {};
}

// The dimensions of a stage's KV, which its layers with keys have, and of the states of its
// recurrent layers. If layers have several sizes, these are the heads of the model's largest one,
// and every layer has that room.
struct kv_shape {
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  kv_format format = kv_format::f16;
  std::uint32_t state_layers = 0;
  std::uint64_t state_layer_bytes = 0; // of a slot's state in one layer
  std::uint32_t state_slots = 0;

  constexpr std::size_t page_bytes() const { return 2 * layout_of(format).matrix_bytes(head_size); }
  // 64 positions of all layers.
  constexpr std::size_t block_bytes() const {
    return std::size_t{layers} * kv_heads * page_bytes();
  }
  constexpr std::size_t slot_bytes() const { return state_layers * state_layer_bytes; }
};

std::string_view name_of(kv_format format) noexcept;
// "f16", "f32", "q8_0"; empty for any other name.
std::optional<kv_format> kv_format_from(std::string_view name) noexcept;

} // namespace baton::cpu
