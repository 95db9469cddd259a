// The kernels compiled with the flags for AVX2. This file includes no library code, which the
// linker could share with files for older CPUs.
#include "runtime/cpu/kernels/kernel_table.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"
#include "runtime/cpu/kernels/vector_avx2.hpp"

namespace baton::cpu {

constinit const kernels kernels_avx2 = make_kernels<vector_avx2>(isa::avx2);

} // namespace baton::cpu
