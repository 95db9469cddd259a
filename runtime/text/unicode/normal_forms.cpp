// Finds the few parts of a text that a normal form can change, and changes only those; see
// normal_forms.hpp.
#include "runtime/text/unicode/normal_forms.hpp"

#include "runtime/text/unicode/characters.hpp"
#include "schema/ensure.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace baton::text {

namespace {

constexpr std::int32_t code_points_end = 0x110000;

bool composes(normal_form form) noexcept {
  return form == normal_form::nfc || form == normal_form::nfkc;
}
bool is_compatible(normal_form form) noexcept {
  return form == normal_form::nfkc || form == normal_form::nfkd;
}

// Appends a character's decomposition.
void decompose(std::int32_t character, bool compatible, std::vector<std::int32_t>& out) {
  constexpr std::size_t parts_max = 32; // 18 at most
  std::array<std::int32_t, parts_max> parts{};
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (compatible)
    options |= UTF8PROC_COMPAT;
  int boundary = 0;
  const auto count = utf8proc_decompose_char(character, parts.data(), parts.size(),
                                             static_cast<utf8proc_option_t>(options), &boundary);
  ENSURE(count >= 0 && static_cast<std::size_t>(count) <= parts.size(), "U+{:04X} has {} parts",
         character, count);
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

int combining_class(std::int32_t character) noexcept {
  return utf8proc_get_property(character)->combining_class;
}

void compose(std::vector<std::int32_t>& characters) {
  const auto count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  ENSURE(count >= 0, "{} characters do not compose", characters.size());
  characters.resize(static_cast<std::size_t>(count));
}

// Sorts marks by combining class. The library's own sort is quadratic in the length of a run.
void sort_marks(std::vector<std::int32_t>& characters) {
  const auto by_class = [](std::int32_t a, std::int32_t b) {
    return combining_class(a) < combining_class(b);
  };
  const auto is_mark = [](std::int32_t c) { return combining_class(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto begin = std::find_if(at, characters.end(), is_mark);
    at = std::find_if_not(begin, characters.end(), is_mark);
    if (!std::is_sorted(begin, at, by_class))
      std::stable_sort(begin, at, by_class);
  }
}

// Characters that a form leaves unchanged in any context: nothing changes between two of them.
// [code_points_end]
using plain_characters = std::vector<bool>;

plain_characters find_plain(normal_form form) {
  plain_characters plain(code_points_end, true);
  std::vector<std::int32_t> parts;
  std::vector<std::int32_t> seconds; // may compose with the previous character
  for (std::int32_t c = 0; c < code_points_end; ++c) {
    const auto* property = utf8proc_get_property(c);
    if (property->category == UTF8PROC_CATEGORY_CN || property->category == UTF8PROC_CATEGORY_CS)
      continue; // unassigned, or a surrogate
    parts.clear();
    decompose(c, is_compatible(form), parts);
    const bool has_parts = parts.size() > 1;
    auto whole = parts;
    if (composes(form) && has_parts)
      compose(whole);
    const bool is_same = whole.size() == 1 && whole.front() == c;
    plain[static_cast<std::size_t>(c)] = is_same && property->combining_class == 0;
    if (composes(form) && is_same && has_parts)
      seconds.insert(seconds.end(), parts.begin() + 1, parts.end());
  }
  for (const std::int32_t c : seconds)
    plain[static_cast<std::size_t>(c)] = false;
  return plain;
}

template <normal_form Form>
const plain_characters& plain_in() {
  static const plain_characters made = find_plain(Form); // takes some 50 ms, once
  return made;
}

const plain_characters& plain_of(normal_form form) {
  switch (form) {
  case normal_form::nfc:
    return plain_in<normal_form::nfc>();
  case normal_form::nfd:
    return plain_in<normal_form::nfd>();
  case normal_form::nfkc:
    return plain_in<normal_form::nfkc>();
  case normal_form::nfkd:
    break;
  }
  return plain_in<normal_form::nfkd>();
}

void append_utf8(std::int32_t character, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(character, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
}

// Appends the normal form of `text`. Requires: `text` is UTF-8.
void append_form(std::string_view text, normal_form form, std::vector<std::int32_t>& characters,
                 std::string& out) {
  characters.clear();
  for (std::size_t at = 0; at < text.size();) {
    const code_point next = code_point_at(text, at);
    decompose(next.value, is_compatible(form), characters);
    at += next.length;
  }
  sort_marks(characters);
  if (composes(form))
    compose(characters);
  for (const std::int32_t c : characters)
    append_utf8(c, out);
}

} // namespace

std::string normalized(std::string_view text, normal_form form) {
  const plain_characters& plain = plain_of(form);
  const auto stays = [&plain](code_point c) {
    return c.value < 0 || plain[static_cast<std::size_t>(c.value)];
  };
  std::vector<std::int32_t> characters;
  std::string made;
  made.reserve(text.size());
  std::size_t done = 0;     // up to here, the form is in `made`
  std::size_t previous = 0; // start of the character before `at`; `at` if it cannot compose
  for (std::size_t at = 0; at < text.size();) {
    const code_point next = code_point_at(text, at);
    if (stays(next)) {
      previous = next.value < 0 ? at + next.length : at;
      at += next.length;
      continue;
    }
    made += text.substr(done, previous - done);
    at += next.length;
    while (at < text.size() && !stays(code_point_at(text, at)))
      at += code_point_at(text, at).length;
    append_form(text.substr(previous, at - previous), form, characters, made);
    done = previous = at;
  }
  made += text.substr(done);
  return made;
}

std::string lower_case(std::string_view text) {
  constexpr std::int32_t dotted_capital_i = 0x130; // the only lower case of two characters
  std::string made;
  made.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const code_point next = code_point_at(text, at);
    if (next.value < 0)
      made += text[at];
    else if (next.value == dotted_capital_i)
      made += "i\xCC\x87";
    else
      append_utf8(utf8proc_tolower(next.value), made);
    at += next.length;
  }
  return made;
}

} // namespace baton::text
