// Run-time CPU detection; the only file that queries the processor.
#include "runtime/cpu/kernels/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace baton::cpu {
namespace {

#if defined(__x86_64__)

// By CPUID, because clang 14 knows no such name.
bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned f16c = 1U << 29U;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & f16c) != 0;
}

bool has_avx512_vnni() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && has_f16c();
}

// Linux grants the AMX registers on request; using them before raises a signal. The grant covers
// all threads. It fails without such registers or with too small a signal stack.
bool are_tiles_granted() noexcept {
  constexpr int request_permission = 0x1023; // ARCH_REQ_XCOMP_PERM
  constexpr int tile_data = 18;              // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// By CPUID, because compilers differ in their support of __builtin_cpu_supports for these.
bool has_avx512_bf16() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned avx512_bf16 = 1U << 5U;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & avx512_bf16) != 0;
}

bool has_amx() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned avx512_vbmi = 1U << 1U;
  constexpr unsigned amx_bf16 = 1U << 22U, amx_tile = 1U << 24U, amx_int8 = 1U << 25U;
  constexpr unsigned amx = amx_bf16 | amx_tile | amx_int8;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (c & avx512_vbmi) == 0 || (d & amx) != amx)
    return false;
  static const bool are_granted = are_tiles_granted();
  return are_granted;
}

bool is_better(isa candidate) noexcept {
  return candidate != isa::avx512_bf16 || __builtin_cpu_is("amd");
}

#else

bool is_better(isa) noexcept {
  return true;
}

#endif

} // namespace

bool is_available(isa wanted) noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (wanted) {
  case isa::portable:
    return true;
  case isa::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  case isa::avx512_vnni:
    return has_avx512_vnni();
  case isa::avx512_bf16:
    return has_avx512_vnni() && has_avx512_bf16();
  case isa::amx:
    return has_avx512_vnni() && has_avx512_bf16() && has_amx();
  }
  return false;
#else
  return wanted == isa::portable;
#endif
}

isa detect_isa() noexcept {
  isa best = isa::portable;
  for (const isa candidate : isas)
    if (is_available(candidate) && is_better(candidate))
      best = candidate;
  return best;
}

std::string_view name_of(isa which) noexcept {
  switch (which) {
  case isa::portable:
    return "portable";
  case isa::avx2:
    return "avx2";
  case isa::avx512_vnni:
    return "avx512-vnni";
  case isa::avx512_bf16:
    return "avx512-bf16";
  case isa::amx:
    return "amx";
  }
  return "unknown";
}

std::optional<isa> isa_from(std::string_view name) noexcept {
  for (const isa candidate : isas)
    if (name == name_of(candidate))
      return candidate;
  return std::nullopt;
}

} // namespace baton::cpu
