// The kernels compiled for avx2, with the compiler flags of that instruction set alone: this file
// includes no library code that a linker could share with files for lesser CPUs.
#include "runtime/cpu/kernel_table.hpp"
#include "runtime/cpu/kernel_tables.hpp"
#include "runtime/cpu/vector_avx2.hpp"

namespace baton::cpu {

constinit const kernels kernels_avx2 = make_kernels<vector_avx2>(isa::avx2);

} // namespace baton::cpu
