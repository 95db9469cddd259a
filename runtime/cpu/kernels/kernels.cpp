// Selects the kernel table of an instruction set.
#include "runtime/cpu/kernels/kernels.hpp"

#include "runtime/cpu/kernels/kernel_tables.hpp"
#include "schema/ensure.hpp"

namespace baton::cpu {

#if defined(__x86_64__)
namespace {

kernels with_products(isa which, void (*take)(kernels&)) {
  kernels table = kernels_avx512;
  take(table);
  table.which = which;
  return table;
}

} // namespace
#endif

const kernels& kernels_for(isa which) noexcept {
  ENSURE(is_available(which), "this CPU cannot run {} kernels", name_of(which));
#if defined(__x86_64__)
  if (which == isa::amx) {
    static const kernels table = with_products(which, [](kernels& k) {
      take_amx_products(k);
      take_amx_quantised_products(k);
    });
    return table;
  }
  if (which == isa::avx512_bf16) {
    static const kernels table = with_products(which, take_bf16_products);
    return table;
  }
  if (which == isa::avx512_vnni)
    return kernels_avx512;
  if (which == isa::avx2)
    return kernels_avx2;
#endif
  return kernels_portable;
}

} // namespace baton::cpu
