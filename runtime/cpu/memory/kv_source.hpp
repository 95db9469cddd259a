// The KV memory of another shard on this machine. A shard whose plan has a different split reads
// its layers' contents from it once. It uses pread instead of a mapping: if the file changes, the
// worst case is an error.
#pragma once

#include "runtime/cpu/kernels/kv_label.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <span>
#include <utility>
#include <vector>

namespace baton::cpu {

class kv_source {
public:
  // `fd` is a memfd labelled by kv_memory::share; it may be closed afterwards. Errors: io_failed,
  // invalid_value (not a KV memory of this version).
  static result<kv_source> open(int fd);

  kv_source(kv_source&& other) noexcept : fd_(std::exchange(other.fd_, -1)), label_(other.label_) {}
  kv_source& operator=(kv_source&& other) noexcept {
    std::swap(fd_, other.fd_);
    label_ = other.label_;
    return *this;
  }
  ~kv_source();

  const kv_label& label() const noexcept { return label_; }
  std::uint32_t first_layer() const noexcept {
    return static_cast<std::uint32_t>(label_.first_layer);
  }
  std::uint32_t end_layer() const noexcept {
    return static_cast<std::uint32_t>(label_.first_layer + label_.layers);
  }
  // Fills `to` with whole layers of a block, starting at `layer` (of the model). Errors: io_failed.
  // Requires: the source has the block and the layers.
  result<void> read(block_index block, std::uint32_t layer, std::span<std::byte> to) const;
  std::uint32_t first_state_layer() const noexcept {
    return static_cast<std::uint32_t>(label_.first_state_layer);
  }
  std::uint32_t end_state_layer() const noexcept {
    return static_cast<std::uint32_t>(label_.first_state_layer + label_.state_layers);
  }
  // The same for the state of a slot, numbered from 1, in layers with states.
  result<void> read_state(std::uint32_t slot, std::uint32_t layer, std::span<std::byte> to) const;
  // Whether the contents still have the incarnation that open() found.
  bool is_same() const;

private:
  kv_source(int fd, const kv_label& label) : fd_(fd), label_(label) {}

  int fd_ = -1;
  kv_label label_;
};

// Consecutive layers from one source, counted as in kv_part.
struct kv_run {
  const kv_source* from = nullptr;
  std::uint32_t layer = 0;
  std::uint32_t count = 0;
};

// The source of each layer of a shard's KV. Errors: invalid_value (names a layer without a source;
// a source of another model, split, shape or type does not count).
result<std::vector<kv_run>> runs_of(const kv_part& own, const kv_shape& shape,
                                    std::span<const kv_source> from);
// The same for the layers with states.
result<std::vector<kv_run>> state_runs_of(const kv_part& own, const kv_shape& shape,
                                          std::span<const kv_source> from);

} // namespace baton::cpu
