// The portable kernels, compiled with their own flags. This file includes no library code, which
// the linker could share with files for other CPUs.
#include "runtime/cpu/kernels/kernel_table.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"
#include "runtime/cpu/kernels/vector_portable.hpp"

namespace baton::cpu {

constinit const kernels kernels_portable = make_kernels<vector_portable>(isa::portable);

} // namespace baton::cpu
