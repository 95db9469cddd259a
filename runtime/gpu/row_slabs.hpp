// Memory of the host in which a stage's rows leave it: copied there by the device, read from there
// by whoever sends them, given back when they are sent. So a step's rows are copied once.
#pragma once

#include "runtime/gpu/device.hpp"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace baton::gpu {

class row_slabs {
public:
  // All of them together have at most `bytes_max`; `memory` gives that of one (device::take_host).
  row_slabs(std::function<buffer(std::uint64_t)> memory, std::uint64_t bytes_max)
      : memory_(std::move(memory)), bytes_max_(bytes_max) {}

  // So many bytes, until they are given back; null: too much is out. One thread at a time.
  float* take(std::uint64_t bytes);
  // Any thread. Requires: take() has given it, and nobody has given it back since.
  void give_back(const float* rows) noexcept;

private:
  struct slab {
    buffer memory;
    std::uint64_t bytes = 0;
    bool is_out = false;
  };

  slab* find_free(std::uint64_t bytes);
  bool make_room(std::uint64_t bytes);

  const std::function<buffer(std::uint64_t)> memory_;
  const std::uint64_t bytes_max_;
  std::mutex mutex_;
  std::vector<slab> all_;
};

} // namespace baton::gpu
