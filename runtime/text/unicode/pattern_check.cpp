#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/unicode/pattern_check.hpp"

#include <pcre2.h>

#include <array>

namespace baton::text {

result<void> check_pattern(std::string_view pattern) {
  int number = 0;
  PCRE2_SIZE offset = 0;
  auto* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &number, &offset, nullptr);
  if (code != nullptr) {
    pcre2_code_free(code);
    return {};
  }
  std::array<PCRE2_UCHAR, 256> why{};
  pcre2_get_error_message(number, why.data(), why.size());
  return fail(errc::invalid_value, "position {}: {}", offset,
              reinterpret_cast<const char*>(why.data()));
}

} // namespace baton::text
