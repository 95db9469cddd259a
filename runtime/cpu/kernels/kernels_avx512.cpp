// The kernels compiled with the flags for AVX-512. This file includes no library code, which the
// linker could share with files for older CPUs.
#include "runtime/cpu/kernels/kernel_table.hpp"
#include "runtime/cpu/kernels/kernel_tables.hpp"
#include "runtime/cpu/kernels/vector_avx512.hpp"

namespace baton::cpu {

constinit const kernels kernels_avx512 = make_kernels<vector_avx512>(isa::avx512_vnni);

} // namespace baton::cpu
