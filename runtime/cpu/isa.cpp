// Run-time CPU detection; the only file that asks the processor what it is.
#include "runtime/cpu/isa.hpp"

namespace baton::cpu {

bool is_available(isa wanted) noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (wanted) {
  case isa::portable:
    return true;
  case isa::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
  case isa::avx512_vnni:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("f16c");
  }
  return false;
#else
  return wanted == isa::portable;
#endif
}

isa detect_isa() noexcept {
  for (isa candidate : {isa::avx512_vnni, isa::avx2})
    if (is_available(candidate))
      return candidate;
  return isa::portable;
}

std::string_view name_of(isa which) noexcept {
  switch (which) {
  case isa::portable:
    return "portable";
  case isa::avx2:
    return "avx2";
  case isa::avx512_vnni:
    return "avx512-vnni";
  }
  return "unknown";
}

std::optional<isa> isa_from(std::string_view name) noexcept {
  for (isa candidate : {isa::portable, isa::avx2, isa::avx512_vnni})
    if (name == name_of(candidate))
      return candidate;
  return std::nullopt;
}

} // namespace baton::cpu
