// Applies each step by its kind, as Hugging Face's normalizers do; see text_steps.hpp.
#include "runtime/text/pre_tokenizers/text_steps.hpp"

#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/unicode/characters.hpp"
#include "runtime/text/unicode/normal_forms.hpp"

#include <algorithm>

namespace baton::text {

namespace {

std::string spaces_joined(std::string_view text, std::string_view to) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
    if (end - at >= 2)
      made += to;
    else
      made += text.substr(at, end - at);
    const std::size_t next = std::min(text.find(' ', end), text.size());
    made += text.substr(end, next - end);
    at = next;
  }
  return made;
}

std::string_view stripped_left(std::string_view text) {
  while (!text.empty() && is_white_space(code_point_at(text, 0)))
    text.remove_prefix(code_point_at(text, 0).length);
  return text;
}

std::string_view stripped_right(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point next = code_point_at(text, at);
    at += next.length;
    if (!is_white_space(next))
      end = at;
  }
  return text.substr(0, end);
}

std::string words_marked(std::string_view text) {
  std::string made;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const code_point next = code_point_at(text, at);
    const bool is_space = is_white_space(next);
    if (!is_space && !in_word && !text.substr(at).starts_with(space_symbol))
      made += space_symbol;
    if (!is_space)
      made += text.substr(at, next.length);
    in_word = !is_space;
    at += next.length;
  }
  return made;
}

// A short cluster that begins with a sequence of the map is replaced whole, even if the replacement
// is only for its first character. Otherwise each character is replaced. The reference does the
// same, with the same limit.
std::string mapped(std::string_view text, const character_map& map) {
  constexpr std::size_t cluster_bytes_end = 6;
  std::string made;
  while (!text.empty() && made.size() <= normalized_bytes_max) {
    const std::string_view cluster = text.substr(0, cluster_bytes(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() < cluster_bytes_end)
      if (const auto found = map.find_shortest(cluster)) {
        made += found->replacement;
        continue;
      }
    for (std::string_view rest = cluster; !rest.empty();) {
      const std::string_view character = rest.substr(0, code_point_at(rest, 0).length);
      const auto found = map.find_shortest(character);
      made += found ? found->replacement : character;
      rest.remove_prefix(character.size());
    }
  }
  return made;
}

} // namespace

result<text_steps> text_steps::create(const std::vector<text_step>& steps) {
  text_steps made;
  for (const text_step& each : steps) {
    const bool has_map = each.what == text_step::kind::character_map;
    auto map = character_map::create(has_map ? std::string_view(each.from) : std::string_view());
    if (!map)
      return map.error();
    made.steps_.push_back({each, std::move(*map)});
  }
  return made;
}

std::string text_steps::applied(const step& each, std::string_view text) {
  using kind = text_step::kind;
  switch (each.what.what) {
  case kind::nfc:
    return normalized(text, normal_form::nfc);
  case kind::nfd:
    return normalized(text, normal_form::nfd);
  case kind::nfkc:
    return normalized(text, normal_form::nfkc);
  case kind::nfkd:
    return normalized(text, normal_form::nfkd);
  case kind::lower_case:
    return lower_case(text);
  case kind::character_map:
    return mapped(text, each.map);
  case kind::replace:
    return replaced(text, each.what.from, each.what.to);
  case kind::join_spaces:
    return spaces_joined(text, each.what.to);
  case kind::strip_left:
    return std::string(stripped_left(text));
  case kind::strip_right:
    return std::string(stripped_right(text));
  case kind::prepend:
    return text.empty() ? std::string() : each.what.to + std::string(text);
  case kind::words:
    break;
  }
  return words_marked(text);
}

bool text_steps::loses_begin(const step& each, std::string_view text) {
  if (text.empty())
    return false;
  const auto kind = each.what.what;
  if (kind == text_step::kind::strip_left)
    return is_white_space(code_point_at(text, 0));
  if (kind == text_step::kind::replace)
    return each.what.to.empty() && text.starts_with(each.what.from);
  return kind == text_step::kind::character_map &&
         mapped(text.substr(0, cluster_bytes(text)), each.map).empty();
}

result<text_steps::outcome> text_steps::apply(std::string_view text) const {
  outcome made{std::string(text)};
  for (const step& each : steps_) {
    made.lost_begin = made.lost_begin || loses_begin(each, made.text);
    made.text = applied(each, made.text);
    if (made.text.size() > normalized_bytes_max)
      return too_long_once_normalized();
  }
  return made;
}

} // namespace baton::text
