// The header of a KV memory file: identifies its contents and locates a layer of a block.
#pragma once

#include "runtime/cpu/kernels/kv_format.hpp"

#include <cstddef>
#include <cstdint>

namespace baton::cpu {

// The part of a model that a KV memory holds, beside its shape. Layers are counted among those
// with attention, and among those with states.
struct kv_part {
  std::uint64_t model = 0; // includes the split into ranks, because the bits depend on it
  std::uint32_t first_layer = 0;
  std::uint32_t first_kv_head = 0;
  std::uint32_t first_state_layer = 0;
  friend bool operator==(const kv_part&, const kv_part&) = default;
};

// All members have the same width, so there are no padding bytes.
struct kv_label {
  static constexpr std::uint64_t kv_label_magic = 0x34766B6E6F746162; // "batonkv4"

  std::uint64_t magic = kv_label_magic;
  std::uint64_t model = 0, first_layer = 0, first_kv_head = 0;
  std::uint64_t layers = 0, kv_heads = 0, head_size = 0, format = 0;
  std::uint64_t block_positions = kv_block_positions;
  std::uint64_t blocks = 0;
  std::uint64_t first_state_layer = 0, state_layers = 0, state_layer_bytes = 0, state_slots = 0;
  std::uint64_t incarnation = 0; // 0: nothing stored yet

  friend bool operator==(const kv_label&, const kv_label&) = default;
};
inline constexpr std::size_t kv_label_bytes = 4096; // a page: blocks start on the next one
static_assert(sizeof(kv_label) <= kv_label_bytes);

inline kv_label label_of(const kv_part& part, const kv_shape& shape, std::uint32_t blocks,
                         std::uint64_t incarnation) {
  kv_label l;
  l.model = part.model;
  l.first_layer = part.first_layer;
  l.first_kv_head = part.first_kv_head;
  l.layers = shape.layers;
  l.kv_heads = shape.kv_heads;
  l.head_size = shape.head_size;
  l.format = static_cast<std::uint64_t>(shape.format);
  l.blocks = blocks;
  l.first_state_layer = part.first_state_layer;
  l.state_layers = shape.state_layers;
  l.state_layer_bytes = shape.state_layer_bytes;
  l.state_slots = shape.state_slots;
  l.incarnation = incarnation;
  return l;
}

} // namespace baton::cpu
