// ENSURE(condition, format, args...): a broken invariant of our own ends the process, in every
// build. Input, peers, files and time are never checked with it: their failures are error values.
#pragma once

#include "schema/format.hpp"

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
