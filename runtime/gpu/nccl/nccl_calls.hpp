// The NCCL and CUDA calls behind the ranks' sums, as an interface: the library itself
// (nccl_library.cpp), and in tests one that fails on demand. Only abort() blocks.
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

  // Throws refused(group_failed) with NCCL's message.
  virtual nccl_id make_id() = 0;
  // Null: failed.
  virtual nccl_communicator begin(const nccl_id& id, std::uint32_t rank, std::uint32_t width) = 0;

  // The progress of the last request: begun, accepted, or a later asynchronous error.
  virtual nccl_progress state_of(nccl_communicator of) = 0;
  // Enqueues a sum on the device; false: failed.
  virtual bool add_sum(nccl_communicator in, float* values, std::size_t count) = 0;
  // The progress of all work on the device.
  virtual nccl_progress device_state() = 0;
  // Stops all activity of the communicator, also on the device, and frees it.
  virtual void abort(nccl_communicator what) noexcept = 0;
  // The last failure, as a message for people.
  virtual std::string last_error() const = 0;
};

} // namespace baton::gpu
