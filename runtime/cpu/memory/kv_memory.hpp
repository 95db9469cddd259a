// Paged keys and values of a stage's layers. A block holds 64 positions of one sequence for all of
// the stage's layers, with a page per (layer, kv head) as in kv_format.hpp. Slots behind the blocks
// hold the states of recurrent layers. The scheduler assigns blocks and slots to sequences. The
// memory may be a memory file that the shard's agent holds: it outlives the shard, and the next
// shard reuses it.
#pragma once

#include "runtime/cpu/kernels/kv_label.hpp"
#include "runtime/cpu/memory/large_memory.hpp"

#include <span>
#include <vector>

namespace baton::cpu {

class kv_memory {
public:
  // Reserves address space; the system allocates pages when a block is first written. Errors:
  // does_not_fit.
  static result<kv_memory> take(const kv_shape& sizes, std::uint32_t blocks);
  // The same in the file `fd`, which has no other writer. Keeps the contents if they match this
  // part of the model, shape and number of blocks; otherwise starts a new incarnation. Errors:
  // does_not_fit, io_failed.
  static result<kv_memory> share(const kv_shape& sizes, std::uint32_t blocks, int fd,
                                 const kv_part& part);

  kv_format format() const noexcept { return shape_.format; }
  const kv_shape& shape() const noexcept { return shape_; }
  std::uint32_t blocks() const noexcept { return blocks_; }
  // Identifies the contents: unchanged by a restart that reuses them. 0: the contents are lost when
  // the process ends.
  std::uint64_t incarnation() const noexcept { return incarnation_; }
  // Requires: block < blocks(), layer and head in the shape.
  std::byte* page(std::uint32_t block, std::uint32_t layer, std::uint32_t head) const noexcept {
    return page(block, layer, head, shape_.page_bytes());
  }
  // The same in a layer with pages of its own size. All layers have the room of the largest one.
  // Requires also: the layer's pages fit it.
  std::byte* page(std::uint32_t block, std::uint32_t layer, std::uint32_t head,
                  std::size_t page_bytes) const noexcept {
    const std::size_t index = std::size_t{block} * shape_.layers + layer;
    return memory_.data() + begin_ + index * shape_.kv_heads * shape_.page_bytes() +
           head * page_bytes;
  }

  // The pages of consecutive layers of a block. Requires: block < blocks(), layers in the shape.
  std::span<std::byte> layers(std::uint32_t index, std::uint32_t first,
                              std::uint32_t count) const noexcept {
    const auto bytes = std::size_t{shape_.kv_heads} * shape_.page_bytes();
    return block(index).subspan(first * bytes, count * bytes);
  }
  // All pages of a block. Requires: block < blocks().
  std::span<std::byte> block(std::uint32_t index) const noexcept {
    return {memory_.data() + begin_ + index * shape_.block_bytes(), shape_.block_bytes()};
  }

  // The state of a slot in a recurrent layer of the stage. Requires: both are in the shape; slots
  // are numbered from 1.
  float* state(std::uint32_t slot, std::uint32_t layer) const noexcept {
    const std::size_t index = std::size_t{slot - 1} * shape_.state_layers + layer;
    return reinterpret_cast<float*>(memory_.data() + states_begin_ +
                                    index * shape_.state_layer_bytes);
  }

  // The same bytes, of consecutive layers.
  std::span<std::byte> states(std::uint32_t slot, std::uint32_t first,
                              std::uint32_t count) const noexcept {
    return {reinterpret_cast<std::byte*>(state(slot, first)), count * shape_.state_layer_bytes};
  }

  // Returns the blocks that no step of this process has used yet, out of those of the next step.
  // Always empty without a file, because that memory has larger pages.
  void first_uses(std::span<const std::uint32_t> blocks, std::vector<std::uint32_t>& out);

  kv_memory() = default; // without blocks

private:
  kv_memory(large_memory memory, const kv_shape& sizes, std::uint32_t blocks, std::size_t begin)
      : memory_(std::move(memory)), shape_(sizes), blocks_(blocks), begin_(begin),
        states_begin_(begin + blocks * sizes.block_bytes()) {}

  large_memory memory_;
  kv_shape shape_;
  std::uint32_t blocks_ = 0;
  std::size_t begin_ = 0;        // offset of the first block; a file has its label before it
  std::size_t states_begin_ = 0; // of the first slot
  std::uint64_t incarnation_ = 0;
  std::vector<bool> is_used_; // [block], in this process
};

} // namespace baton::cpu
