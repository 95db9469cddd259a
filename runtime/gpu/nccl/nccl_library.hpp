// The installed NCCL, on one CUDA device.
#pragma once

#include "runtime/gpu/nccl/nccl_calls.hpp"

#include <memory>
#include <string>

namespace baton::gpu {

// The loaded NCCL and its file, which depend on torch's RPATH, LD_LIBRARY_PATH and LD_PRELOAD.
struct nccl_found {
  int version = 0; // 22809 for 2.28.9
  std::string file;
};
// Throws as open_nccl does.
nccl_found find_nccl(const char* file = "libnccl.so.2");

// `stream`: a cudaStream_t of the current device. Throws refused(no_device): the library is
// missing, lacks a function, or is older than the header that was compiled.
std::unique_ptr<nccl_calls> open_nccl(void* stream, const char* file = "libnccl.so.2");

} // namespace baton::gpu
