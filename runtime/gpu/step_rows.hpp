// The rows of a step as the kernels read them: one array of whole numbers on the device, filled on
// the host and copied once a step.
#pragma once

#include "runtime/gpu/device.hpp"

#include <vector>

namespace baton::gpu {

class step_rows {
public:
  // Lays the batch out and copies it over. Requires: the batch is valid.
  void set(device& on, const plugin::batch& batch, std::uint32_t block_positions);

  std::uint32_t rows() const noexcept { return rows_; }
  std::uint32_t draws() const noexcept { return draws_; }
  // On the device: [rows] each, but for `picked` [draws] and `blocks`.
  const std::int32_t* tokens() const noexcept { return on_device_.as<std::int32_t>(); }
  const std::uint32_t* positions() const noexcept { return part(1); }
  const std::uint32_t* places() const noexcept { return part(2); } // in the KV memory
  const std::uint32_t* tables() const noexcept { return part(3); } // where in `blocks`
  const std::uint32_t* picked() const noexcept { return part(4); } // rows that draw
  const std::uint32_t* blocks() const noexcept { return part(4) + draws_; }

private:
  const std::uint32_t* part(std::size_t which) const noexcept {
    return on_device_.as<std::uint32_t>() + which * rows_;
  }

  std::uint32_t rows_ = 0, draws_ = 0;
  std::vector<std::uint32_t> host_;
  buffer on_device_;
  std::size_t room_ = 0; // numbers that it holds
};

} // namespace baton::gpu
