// What of NCCL and CUDA the ranks' sums are made of, as a seam: the library itself
// (nccl_library.cpp), and in the tests one that fails on demand. No call blocks, but for abort.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace baton::gpu {

using nccl_id = std::array<unsigned char, 128>; // ncclUniqueId
using nccl_communicator = void*;

enum class nccl_progress { done, pending, failed };

class nccl_calls {
public:
  virtual ~nccl_calls() = default;

  // Throws refused(group_failed), naming what NCCL says.
  virtual nccl_id make_id() = 0;
  // Null: it failed.
  virtual nccl_communicator begin(const nccl_id& id, std::uint32_t rank, std::uint32_t width) = 0;

  // Of what was last asked of it: begun, taken in, or an error that came later.
  virtual nccl_progress state_of(nccl_communicator of) = 0;
  // Adds a sum to the device's work; false: it failed.
  virtual bool add_sum(nccl_communicator in, float* values, std::size_t count) = 0;
  // Of all work that the device was given.
  virtual nccl_progress device_state() = 0;
  // Ends whatever the communicator does, also on the device, and frees it.
  virtual void abort(nccl_communicator what) noexcept = 0;
  // What went wrong last, for people.
  virtual std::string last_error() const = 0;
};

} // namespace baton::gpu
