// The tables for kernels_for, one per kernels_<isa>.cpp. Private to this folder.
#pragma once

#include "runtime/cpu/kernels/kernels.hpp"

namespace baton::cpu {

extern const kernels kernels_portable;
#if defined(__x86_64__)
extern const kernels kernels_avx2;
extern const kernels kernels_avx512;
// The bf16 product with VDPBF16PS, for tables with a better product for many rows.
void matmul_bf16_by_pairs(const matmul_args& args);
// Replace products of kernels_avx512: those of bf16, and those of quantised panels.
void take_bf16_products(kernels& table);
void take_amx_products(kernels& table);
void take_amx_quantised_products(kernels& table);
#endif

} // namespace baton::cpu
