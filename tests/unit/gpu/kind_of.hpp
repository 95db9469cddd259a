// The kind of a type of elements.
#pragma once

#include "runtime/gpu/device/scalar.hpp"
#include "runtime/plugin/abi.hpp"

#include <type_traits>

namespace baton::testing {

template <class T>
constexpr plugin::element kind_of = std::is_same_v<T, float>      ? plugin::element::f32
                                    : std::is_same_v<T, gpu::f16> ? plugin::element::f16
                                                                  : plugin::element::bf16;

} // namespace baton::testing
