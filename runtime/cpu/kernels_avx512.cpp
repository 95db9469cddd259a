// The kernels compiled for avx512, with the compiler flags of that instruction set alone: this file
// includes no library code that a linker could share with files for lesser CPUs.
#include "runtime/cpu/kernel_table.hpp"
#include "runtime/cpu/kernel_tables.hpp"
#include "runtime/cpu/vector_avx512.hpp"

namespace baton::cpu {

constinit const kernels kernels_avx512 = make_kernels<vector_avx512>(isa::avx512_vnni);

} // namespace baton::cpu
