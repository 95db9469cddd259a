// Maps an element kind, which is known at run time, to its type. Standard library only.
#pragma once

#include "runtime/gpu/device/kernels.hpp"
#include "runtime/gpu/device/scalar.hpp"

namespace baton::gpu {

// Calls f(T{}) with the type of that kind.
template <class F>
void with_type(element kind, const F& f) {
  if (kind == element::f32)
    f(float{});
  else if (kind == element::f16)
    f(f16{});
  else
    f(bf16{});
}

} // namespace baton::gpu
