// Substring search.
#include "runtime/text/template/values/text_search.hpp"

#include <string.h> // memmem: POSIX 2024, GNU before

namespace baton::text::jinja {

std::optional<std::size_t> find_bytes(std::string_view text, std::string_view needle,
                                      std::size_t from) noexcept {
  if (from > text.size()) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(from);
  if (needle.empty()) {
    return from;
  }
  const void* found = memmem(rest.data(), rest.size(), needle.data(), needle.size());
  if (!found) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

} // namespace baton::text::jinja
