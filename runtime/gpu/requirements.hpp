// Whether what is installed goes with what was compiled, told from the versions alone. Called by
// what sees the libraries: device_torch.cpp, nccl_library.cpp.
#pragma once

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

} // namespace baton::gpu
