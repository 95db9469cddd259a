// ENSURE(condition, format, args...): our own broken invariants end the process, in every build.
// Never used for what the world does (input, peers, files, time): that is an error value.
#pragma once

#include <fmt/core.h>

#include <string>

namespace baton {
[[noreturn]] void ensure_failed(const char* file, int line, const char* condition,
                                const std::string& text) noexcept;
} // namespace baton

#define ENSURE(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::baton::ensure_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__));          \
  } while (false)
