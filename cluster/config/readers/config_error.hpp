// Errors in an operator's file: bad_config, with the file's name and the key.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace baton::cluster {

// "FILE: TEXT"; the text names the key.
inline error bad_key(const std::string& origin, std::string_view key, std::string_view text) {
  return fail_param(errc::bad_config, key, "{}: {}", origin, text);
}
// bad_key(origin, "nodes", "{} must be a table", path)
template <class First, class... Rest>
error bad_key(const std::string& origin, std::string_view key,
              fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return bad_key(
      origin, key,
      std::string_view(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...)));
}

// "FILE: KEY TEXT"
inline error bad_value(const std::string& origin, std::string_view key, std::string_view text) {
  return fail_param(errc::bad_config, key, "{}: {} {}", origin, key, text);
}
template <class First, class... Rest>
error bad_value(const std::string& origin, std::string_view key,
                fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return bad_value(
      origin, key,
      std::string_view(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...)));
}

} // namespace baton::cluster
