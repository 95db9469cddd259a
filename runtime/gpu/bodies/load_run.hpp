// Loads elements as floats, 16 bytes of memory at a time, the fastest unit for a device lane.
#pragma once

#include "runtime/gpu/device/scalar.hpp"

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

// For data that is read once, such as weights: does not displace other data in the caches.
BATON_BODY sixteen_bytes load_sixteen_once(const void* from) {
#ifdef __CUDA_ARCH__
  sixteen_bytes out;
  const uint4 found = __ldcs(static_cast<const uint4*>(from));
  out.word[0] = found.x, out.word[1] = found.y, out.word[2] = found.z, out.word[3] = found.w;
  return out;
#else
  return load_sixteen(from);
#endif
}

// Requires: `to` is aligned to 16 bytes on a device.
BATON_BODY void store_sixteen(const void* from, void* to) {
#ifdef __CUDA_ARCH__
  uint4 made;
  memcpy(&made, from, sizeof made);
  *static_cast<uint4*>(to) = made;
#else
  memcpy(to, from, sizeof(sixteen_bytes));
#endif
}

// Converts the elements in 16 bytes to floats.
BATON_BODY void widen_run(const sixteen_bytes& found, const float*, float (&to)[4]) {
  BATON_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i)
    to[i] = float_of(found.word[i]);
}
template <class T>
BATON_BODY void widen_run(const sixteen_bytes& found, const T*, float (&to)[8]) {
  BATON_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) {
    to[2 * i] = widen(T{static_cast<std::uint16_t>(found.word[i])});
    to[2 * i + 1] = widen(T{static_cast<std::uint16_t>(found.word[i] >> 16)});
  }
}
template <class T>
BATON_BODY void load_run(const T* from, float (&to)[16 / sizeof(T)]) {
  widen_run(load_sixteen(from), from, to);
}

// A run of a row: one element, or 16 bytes of elements if rows are multiples of that.
template <class T, std::uint32_t Run>
struct run_of {
  float value[Run];

  BATON_BODY void load(const T* from) {
    constexpr std::uint32_t part = 16 / sizeof(T);
    if constexpr (Run == 1) {
      value[0] = widen(*from);
    } else {
      BATON_UNROLL
      for (std::uint32_t i = 0; i < Run; i += part) {
        float found[part];
        load_run(from + i, found);
        BATON_UNROLL
        for (std::uint32_t k = 0; k < part; ++k)
          value[i + k] = found[k];
      }
    }
  }
  BATON_BODY void store(T* to) const {
    constexpr std::uint32_t part = 16 / sizeof(T);
    if constexpr (Run == 1) {
      narrow(value[0], *to);
    } else {
      BATON_UNROLL
      for (std::uint32_t i = 0; i < Run; i += part) {
        T made[part];
        BATON_UNROLL
        for (std::uint32_t k = 0; k < part; ++k)
          narrow(value[i + k], made[k]);
        store_sixteen(made, to + i);
      }
    }
  }
};

template <std::uint32_t Run>
struct elements_together {
  static constexpr std::uint32_t value = Run;
};

// Calls f(elements_together<Run>{}) with the number of elements that a lane processes at a time: 16
// bytes of them if rows consist of whole runs, else one.
template <class T, class F>
BATON_BODY void with_run(std::uint32_t width, const F& f) {
  constexpr std::uint32_t together = 16 / sizeof(T);
  if (width % together == 0)
    f(elements_together<together>{});
  else
    f(elements_together<1>{});
}

} // namespace baton::gpu
