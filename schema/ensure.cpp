#include "schema/ensure.hpp"

#include <cstdio>
#include <cstdlib>

namespace baton {

void ensure_failed(const char* file, int line, const char* condition,
                   const std::string& text) noexcept {
  std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", file, line, condition, text.c_str());
  std::abort();
}

} // namespace baton
