// Elements as floats, 16 bytes of memory at a time: what a lane of a device is quick with.
#pragma once

#include "runtime/gpu/scalar.hpp"

namespace baton::gpu {

struct sixteen_bytes {
  std::uint32_t word[4];
};

// Requires: `from` is aligned to 16 bytes on a device.
BATON_BODY sixteen_bytes load_sixteen(const void* from) {
  sixteen_bytes out;
#ifdef __CUDA_ARCH__
  const uint4 found = *static_cast<const uint4*>(from);
  out.word[0] = found.x, out.word[1] = found.y, out.word[2] = found.z, out.word[3] = found.w;
#else
  memcpy(&out, from, sizeof out);
#endif
  return out;
}

// Elements of 16 bytes as floats.
BATON_BODY void load_run(const float* from, float (&to)[4]) {
  const sixteen_bytes found = load_sixteen(from);
  BATON_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i)
    to[i] = float_of(found.word[i]);
}
template <class T>
BATON_BODY void load_run(const T* from, float (&to)[8]) {
  const sixteen_bytes found = load_sixteen(from);
  BATON_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) {
    to[2 * i] = widen(T{static_cast<std::uint16_t>(found.word[i])});
    to[2 * i + 1] = widen(T{static_cast<std::uint16_t>(found.word[i] >> 16)});
  }
}

} // namespace baton::gpu
