// Pieces of text that the readers of tool calls share. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton::gateway {

inline constexpr std::string_view call_space = " \t\r\n";

inline std::size_t behind_space(std::string_view text, std::size_t at) noexcept {
  return std::min(text.find_first_not_of(call_space, at), text.size());
}

inline std::string_view without_space(std::string_view text) noexcept {
  const auto begin = behind_space(text, 0);
  return text.substr(begin, text.find_last_not_of(call_space) + 1 - begin);
}

// Size of the longest suffix of `text` that is a proper prefix of `mark`.
inline std::size_t held_of(std::string_view text, std::string_view mark) noexcept {
  for (auto size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (mark.starts_with(text.substr(text.size() - size))) {
      return size;
    }
  }
  return 0;
}

enum class text_match : std::uint8_t { no, partly, whole };

// Moves `at` behind `pattern`, if the text has it there. White space before it, and where it has
// some itself, may be any or none.
inline text_match match_loosely(std::string_view text, std::size_t& at,
                                std::string_view pattern) noexcept {
  auto here = at;
  bool may_skip = true;
  for (const char c : pattern) {
    if (call_space.find(c) != std::string_view::npos) {
      may_skip = true;
      continue;
    }
    here = may_skip ? behind_space(text, here) : here;
    may_skip = false;
    if (here == text.size()) {
      return text_match::partly;
    }
    if (text[here++] != c) {
      return text_match::no;
    }
  }
  at = here;
  return text_match::whole;
}

// Finds the end of a JSON value by its brackets and strings only.
class json_scanner {
public:
  enum class verdict : std::uint8_t { more, done, bad };
  verdict next(char c) noexcept;

private:
  std::uint32_t depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
};

} // namespace baton::gateway
