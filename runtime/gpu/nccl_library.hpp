// NCCL as it is installed, on one CUDA device.
#pragma once

#include "runtime/gpu/nccl_calls.hpp"

#include <memory>

namespace baton::gpu {

// `stream`: a cudaStream_t of the current device. Throws refused(no_device): the library is not
// there, lacks a function, or is older than the header that was compiled.
std::unique_ptr<nccl_calls> open_nccl(void* stream, const char* file = "libnccl.so.2");

} // namespace baton::gpu
