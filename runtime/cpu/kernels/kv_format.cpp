// The names of the KV formats, as in llama.cpp.
#include "runtime/cpu/kernels/kv_format.hpp"

namespace baton::cpu {

std::string_view name_of(kv_format format) noexcept {
  switch (format) {
  case kv_format::f16:
    return "f16";
  case kv_format::f32:
    return "f32";
  case kv_format::q8_0:
    return "q8_0";
  }
  return "unknown";
}

std::optional<kv_format> kv_format_from(std::string_view name) noexcept {
  for (kv_format candidate : {kv_format::f16, kv_format::f32, kv_format::q8_0})
    if (name == name_of(candidate))
      return candidate;
  return std::nullopt;
}

} // namespace baton::cpu
