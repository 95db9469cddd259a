// Compares the versions of installed and compiled libraries. Called by the files that use the
// libraries: device_torch.cpp, nccl_library.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace baton::gpu {

// All throw refused(no_device), which names the installed and the required version.

// `loaded`: the version of the loaded library, which may differ from the compiled headers.
void check_torch(const std::string& compiled, const std::string& loaded);
// CUDA's numbers, 13000 for 13.0; `driver` is 0 if there is none. A driver supports all of its
// major version.
void check_driver(int index, int driver, int runtime);
// NCCL's numbers, 22809 for 2.28.9.
void check_nccl(int compiled, int installed);
// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
std::string text_of_nccl(int version, const std::string& file);
// Checks that `ranks` ranks of one communicator may share a device. One always may; several need
// NCCL 2.30 and an environment variable. Older versions fail in every epoch ("Duplicate GPU
// detected"). `several`: the value of that variable; null: it is not set.
inline constexpr const char* several_ranks_variable = "NCCL_MULTI_RANK_GPU_ENABLE";
void check_ranks_on_device(int version, const std::string& file, const char* several,
                           std::uint32_t ranks);

} // namespace baton::gpu
