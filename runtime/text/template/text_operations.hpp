// Operations shared by the filters and the string methods. Marks are kept throughout. Lengths and
// positions are in bytes unless characters are mentioned. After a failure, nullopt is returned.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace baton::text::jinja {

struct sides {
  bool left = true;
  bool right = true;
};
// The text without outer characters of `set`, or without outer white space if null.
byte_range strip_range(std::string_view text, const marked_text* set, sides which);
maybe strip(interpreter& run, const marked_text& text, const marked_text* set, sides which);

maybe to_upper(interpreter& run, const marked_text& text);
maybe to_lower(interpreter& run, const marked_text& text);
maybe capitalize(interpreter& run, const marked_text& text);
maybe swap_case(interpreter& run, const marked_text& text);
// str.title: a letter after a letter becomes lower case.
maybe title_words(interpreter& run, const marked_text& text);
// The filter: a word starts after white space or one of -({[<.
maybe title_filter(interpreter& run, const marked_text& text);
enum class letter_case : std::uint8_t { lower, upper };
// str.islower and str.isupper: at least one cased letter, and none of the other case.
bool has_only_case(std::string_view text, letter_case wanted);

// `count` < 0: all.
maybe replace(interpreter& run, const marked_text& text, const marked_text& from,
              const marked_text& to, std::int64_t count);
using ranges = std::vector<byte_range>;
// Pieces between separators; a null `separator` means runs of white space. `splits_max` < 0: all.
// From the right if `from_right`.
std::optional<ranges> split(interpreter& run, std::string_view text, const marked_text* separator,
                            std::int64_t splits_max, bool from_right);
ranges lines_of(std::string_view text, bool keeps_ends);
maybe list_of(interpreter& run, const marked_text& text, const ranges& pieces);
// The last position of `needle` that ends at or before `end`.
std::optional<std::optional<std::size_t>> find_last(interpreter& run, std::string_view text,
                                                    std::string_view needle, std::size_t end);
// Padded to `width` characters; the padding is divided as in Python.
enum class alignment : std::uint8_t { left, right, center };
maybe pad(interpreter& run, const marked_text& text, std::int64_t width, const marked_text& fill,
          alignment where);
maybe reverse_text(interpreter& run, const marked_text& text);

// The argument, or `preset` if it is absent or None. Errors: another kind.
std::optional<std::int64_t> whole_argument(interpreter& run, const value* v, std::int64_t preset);
bool flag_argument(const value* v, bool preset);
// Requires a string if given; null without a failure if absent or None.
std::optional<const marked_text*> text_argument(interpreter& run, const value* v);

} // namespace baton::text::jinja
