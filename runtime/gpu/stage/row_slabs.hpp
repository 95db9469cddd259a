// Host memory for a stage's outgoing rows. The device copies rows there, the sender reads them and
// gives the memory back. A step's rows are therefore copied only once.
#pragma once

#include "runtime/gpu/device/device.hpp"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace baton::gpu {

class row_slabs {
public:
  // All slabs together have at most `bytes_max`; `memory` allocates one (device::take_host).
  row_slabs(std::function<buffer(std::uint64_t)> memory, std::uint64_t bytes_max)
      : memory_(std::move(memory)), bytes_max_(bytes_max) {}

  // `bytes` bytes until give_back(); null: the limit is reached. One thread at a time.
  float* take(std::uint64_t bytes);
  // Thread-safe. Requires: take() returned `rows`, and they were not given back since.
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
