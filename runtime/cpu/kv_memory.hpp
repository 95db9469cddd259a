// Paged keys and values of a stage's layers. A block holds 64 positions of one sequence for all of
// the stage's layers; within it a page per (layer, kv head), as in kv_format.hpp. Which
// sequence owns a block is the scheduler's business. It can lie in a file of memory that the
// shard's agent holds: then it outlives the shard, and the next one finds it.
#pragma once

#include "runtime/cpu/kv_label.hpp"
#include "runtime/cpu/large_memory.hpp"

#include <span>
#include <vector>

namespace baton::cpu {

class kv_memory {
public:
  // Takes address space; the system gives pages when a block is first written.
  // Errors: does_not_fit.
  static result<kv_memory> take(const kv_shape& sizes, std::uint32_t blocks);
  // The same in the file `fd`, of which nobody else writes. What stands there is kept if it is of
  // this part of the model, shape and number of blocks; else it begins a new life.
  // Errors: does_not_fit, io_failed.
  static result<kv_memory> share(const kv_shape& sizes, std::uint32_t blocks, int fd,
                                 const kv_part& part);

  kv_format format() const noexcept { return shape_.format; }
  const kv_shape& shape() const noexcept { return shape_; }
  std::uint32_t blocks() const noexcept { return blocks_; }
  // Which contents these are: the same after a restart that found them again. 0: they go with the
  // process.
  std::uint64_t life() const noexcept { return life_; }
  // Requires: block < blocks(), layer and head in the shape.
  std::byte* page(std::uint32_t block, std::uint32_t layer, std::uint32_t head) const noexcept {
    const std::size_t index = (std::size_t{block} * shape_.layers + layer) * shape_.kv_heads + head;
    return memory_.data() + begin_ + index * shape_.page_bytes();
  }

  // Of a block, the pages of consecutive layers. Requires: block < blocks(), layers in the shape.
  std::span<std::byte> layers(std::uint32_t index, std::uint32_t first,
                              std::uint32_t count) const noexcept {
    const auto bytes = std::size_t{shape_.kv_heads} * shape_.page_bytes();
    return block(index).subspan(first * bytes, count * bytes);
  }
  // All pages of a block. Requires: block < blocks().
  std::span<std::byte> block(std::uint32_t index) const noexcept {
    return {memory_.data() + begin_ + index * shape_.block_bytes(), shape_.block_bytes()};
  }

  // Of these, which a step is about to use, those that no step of this process has used. What is
  // in no file comes in larger pages: nothing of it.
  void first_uses(std::span<const std::uint32_t> blocks, std::vector<std::uint32_t>& out);

  kv_memory() = default; // of no blocks

private:
  kv_memory(large_memory memory, const kv_shape& sizes, std::uint32_t blocks, std::size_t begin)
      : memory_(std::move(memory)), shape_(sizes), blocks_(blocks), begin_(begin) {}

  large_memory memory_;
  kv_shape shape_;
  std::uint32_t blocks_ = 0;
  std::size_t begin_ = 0; // of the first block; before it, in a file, its label
  std::uint64_t life_ = 0;
  std::vector<bool> is_used_; // [block], in this process
};

} // namespace baton::cpu
