// The tables that kernels_for chooses from, one per kernels_<isa>.cpp. Private to this room.
#pragma once

#include "runtime/cpu/kernels.hpp"

namespace baton::cpu {

extern const kernels kernels_portable;
#if defined(__x86_64__)
extern const kernels kernels_avx2;
extern const kernels kernels_avx512;
// The product of bf16 panels by VDPBF16PS, for tables that have something better for many rows.
void matmul_bf16_by_pairs(const matmul_args& args);
// Put their products in place of those of kernels_avx512: of bf16, and of quantised panels.
void take_bf16_products(kernels& table);
void take_amx_products(kernels& table);
void take_amx_quantised_products(kernels& table);
#endif

} // namespace baton::cpu
