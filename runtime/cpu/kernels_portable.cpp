// The kernels compiled for portable, with the compiler flags of that instruction set alone: this
// file includes no library code that a linker could share with files for lesser CPUs.
#include "runtime/cpu/kernel_table.hpp"
#include "runtime/cpu/kernel_tables.hpp"
#include "runtime/cpu/vector_portable.hpp"

namespace baton::cpu {

constinit const kernels kernels_portable = make_kernels<vector_portable>(isa::portable);

} // namespace baton::cpu
