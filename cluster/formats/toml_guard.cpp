#include "cluster/formats/toml_guard.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

// Per line. toml++ limits the nesting of values to 256; 4096 tables take less than 1 MB of stack.
constexpr std::size_t dots_max = 16;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool is_ascii(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x80;
}

// The end of the string at `at`, or where it breaks off: at the end of the line, or at a non-ASCII
// character after a backslash.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != '\n') {
    if (text[at] == quote)
      return at + 1;
    const bool escapes = quote == '"' && text[at] == '\\';
    ++at;
    if (!escapes)
      continue;
    if (at == text.size() || text[at] == '\n' || !is_ascii(text[at]))
      return at;
    ++at;
  }
  return at;
}

} // namespace

result<void> check_toml(std::string_view text, const std::string& origin) {
  std::size_t line = 1;
  std::size_t dots = 0;
  std::size_t at = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (at < text.size()) {
    const char c = text[at];
    if (!is_ascii(c))
      return fail(errc::bad_config,
                  "{}:{}: characters other than ASCII's belong into comments and strings", origin,
                  line);
    if (const auto rest = text.substr(at); rest.starts_with("\"\"\"") || rest.starts_with("'''"))
      return fail(errc::bad_config, "{}:{}: write a string within one line", origin, line);
    dots = c == '\n' ? 0 : dots + (c == '.' ? 1 : 0);
    if (dots > dots_max)
      return fail(errc::bad_config, "{}:{}: more than {} dots outside of strings", origin, line,
                  dots_max);
    line += c == '\n' ? 1 : 0;
    if (c == '#')
      at = std::min(text.find('\n', at), text.size());
    else
      at = c == '"' || c == '\'' ? end_of_string(text, at) : at + 1;
  }
  return {};
}

} // namespace baton::cluster
