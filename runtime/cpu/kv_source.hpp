// The KV memory of another shard of this machine, to be read once: what the layers of a shard begin
// with whose plan has cut the model otherwise. Read with pread, not mapped: whatever becomes of the
// file, nothing worse than an error comes of it.
#pragma once

#include "runtime/cpu/kv_label.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <span>
#include <utility>
#include <vector>

namespace baton::cpu {

class kv_source {
public:
  // `fd` (memfd) as kv_memory::share has labelled it; it may be closed afterwards. Errors:
  // io_failed, invalid_value (it is no KV memory of this version).
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
  // Fills `to`, whole layers of a block, with those from `layer` (of the model) on. Errors:
  // io_failed. Requires: it has the block and the layers.
  result<void> read(block_index block, std::uint32_t layer, std::span<std::byte> to) const;
  // Whether it is still of the life that it had when it was opened.
  bool is_same() const;

private:
  kv_source(int fd, const kv_label& label) : fd_(fd), label_(label) {}

  int fd_ = -1;
  kv_label label_;
};

// Consecutive layers that one source has.
struct kv_run {
  const kv_source* from = nullptr;
  std::uint32_t layer = 0; // of the model
  std::uint32_t count = 0;
};

// Where each layer of a shard's KV comes from. Errors: invalid_value (names a layer that nobody
// has: of another model, cut, shape or type is as good as not there).
result<std::vector<kv_run>> runs_of(const kv_part& own, const kv_shape& shape,
                                    std::span<const kv_source> from);

} // namespace baton::cpu
