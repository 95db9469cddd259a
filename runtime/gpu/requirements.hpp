// Whether what is installed goes with what was compiled, told from the versions alone. Called by
// what sees the libraries: device_torch.cpp, nccl_library.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace baton::gpu {

// All throw refused(no_device), saying what is there and what is needed.

// `loaded`: the library that answers, which need not be the one whose headers were compiled.
void check_torch(const std::string& compiled, const std::string& loaded);
// CUDA's numbers, 13000 for 13.0; `driver` is 0 where there is none. One serves all of its major
// version.
void check_driver(int index, int driver, int runtime);
// NCCL's numbers, 22809 for 2.28.9.
void check_nccl(int compiled, int installed);
// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
std::string text_of_nccl(int version, const std::string& file);
// Whether so many ranks of one communicator may be on one device: one always; several from 2.30 on,
// where the environment says so. An older one refuses the communicator of every epoch, "Duplicate
// GPU detected". `several`: the value of that variable; null: it is not set.
inline constexpr const char* several_ranks_variable = "NCCL_MULTI_RANK_GPU_ENABLE";
void check_ranks_on_device(int version, const std::string& file, const char* several,
                           std::uint32_t ranks);

} // namespace baton::gpu
