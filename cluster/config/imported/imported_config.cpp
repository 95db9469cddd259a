#include "cluster/config/imported/imported_config.hpp"

#include <fmt/format.h>

namespace baton::cluster {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

} // namespace

std::string toml_string(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (is_control(c))
      all += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else if (c == '"' || c == '\\')
      all += {'\\', c};
    else
      all += c;
  }
  return all + "\"";
}

std::string toml_comment(std::string_view text) {
  std::string line = "# ";
  for (const char c : text)
    line += is_control(c) ? ' ' : c;
  return line + "\n";
}

} // namespace baton::cluster
