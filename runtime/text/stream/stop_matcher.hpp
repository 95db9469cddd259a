// Finds stop strings in a text that arrives in parts, and holds back what may be the start of one.
// The hit is the stop string that completes first; if several end at the same byte, the longest.
// The result depends only on the text, not on its division. Used by stream_decoder.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

// Work per byte of text is proportional to the number of stop strings. API servers set tighter
// limits of their own (OpenAI's: 4).
inline constexpr std::size_t stop_strings_max = 64;
inline constexpr std::size_t stop_bytes_max = 4096; // of one string: bounds what is held back

class stop_matcher {
public:
  // include_stop: the stop string itself is part of the text. Errors: invalid_value with param
  // "stop" (an empty string, not UTF-8, over a limit).
  static result<stop_matcher> create(std::vector<std::string> stops, bool include_stop);

  // Appends the text that can be sent to `out`. Returns the index of the stop string once one is
  // complete; nothing after it is read or sent, now or later. If not `may_end`, a stop string that
  // ends within `text` is ordinary text; one that begins there and ends later still counts.
  std::optional<std::size_t> push(std::string_view text, std::string& out, bool may_end = true);
  // The text is complete: appends what was held back.
  void finish(std::string& out);

  std::size_t held_bytes() const noexcept { return held_.size(); }
  std::optional<std::size_t> hit() const noexcept { return hit_; }

private:
  // One stop string with its Knuth-Morris-Pratt table: border[n] is the length of the longest
  // proper prefix of text[0, n) that is also its suffix.
  struct pattern {
    std::string text;
    std::vector<std::uint32_t> border; // [text.size() + 1]
    std::uint32_t matched = 0;         // bytes of `text` that the current text ends with
    void advance(char byte) noexcept;
  };

  std::vector<pattern> patterns_;
  bool include_stop_ = false;
  std::string held_; // as long as the longest `matched`
  std::optional<std::size_t> hit_;
};

} // namespace baton::text
