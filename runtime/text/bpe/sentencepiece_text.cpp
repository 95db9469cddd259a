// Handles spaces, the character map and byte tokens; see sentencepiece_text.hpp.
#include "runtime/text/bpe/sentencepiece_text.hpp"

#include "runtime/text/bpe/token_table.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

namespace {

std::vector<piece_trie::entry> user_defined_tokens(const vocabulary& vocab) {
  std::vector<piece_trie::entry> found;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id)
    if (vocab.kinds[id] == token_kind::user_defined && !vocab.tokens[id].empty())
      found.push_back({with_space_symbols(vocab.tokens[id]), static_cast<token_id>(id)});
  return found;
}

} // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string made;
  made.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    made += text.substr(at, found - at);
    if (found == text.size())
      break;
    made += to;
    at = found + from.size();
  }
  return made;
}

std::string with_plain_spaces(std::string_view token) {
  return replaced(token, space_symbol, " ");
}

std::string with_space_symbols(std::string_view text) {
  return replaced(text, " ", space_symbol);
}

std::size_t character_bytes(std::string_view text) noexcept {
  return utf8_at(text, 0).length;
}

error too_long_once_normalized() {
  return fail(errc::payload_too_large, "the prompt has more than {} bytes once normalized",
              normalized_bytes_max);
}

sentencepiece_normalizer::sentencepiece_normalizer(const vocabulary& vocab, character_map map)
    : adds_space_(vocab.add_space_prefix), removes_spaces_(vocab.remove_extra_whitespaces),
      map_(std::move(map)), user_defined_(user_defined_tokens(vocab)) {}

result<sentencepiece_normalizer> sentencepiece_normalizer::create(const vocabulary& vocab) {
  auto map = character_map::create(vocab.character_map);
  if (!map)
    return map.error();
  return sentencepiece_normalizer(vocab, std::move(*map));
}

sentencepiece_normalizer::chunk
sentencepiece_normalizer::first_chunk(std::string_view text) const noexcept {
  if (!map_.empty()) {
    if (const auto kept = user_defined_.longest(text))
      return {text.substr(0, kept->length), kept->length};
    if (const auto found = map_.find(text))
      return {found->replacement, found->length};
  }
  const utf8_sequence first = utf8_at(text, 0);
  if (first.is != utf8_sequence::state::valid)
    return {replacement_character, 1};
  return {text.substr(0, first.length), first.length};
}

result<std::string> sentencepiece_normalizer::normalize(std::string_view text) const {
  if (removes_spaces_)
    while (!text.empty()) {
      const chunk first = first_chunk(text);
      if (first.as != " ")
        break;
      text.remove_prefix(first.length);
    }
  std::string made;
  if (text.empty())
    return made;
  made.reserve(text.size() + text.size() / 2); // a space becomes three bytes
  if (adds_space_)
    made += space_symbol;
  bool after_space = removes_spaces_;
  while (!text.empty()) {
    chunk next = first_chunk(text);
    text.remove_prefix(next.length);
    while (after_space && next.as.starts_with(' '))
      next.as.remove_prefix(1);
    for (const char byte : next.as)
      if (byte == ' ')
        made += space_symbol;
      else
        made += byte;
    if (!next.as.empty())
      after_space = removes_spaces_ && next.as.ends_with(' ');
    if (made.size() > normalized_bytes_max)
      return too_long_once_normalized();
  }
  if (removes_spaces_)
    while (made.ends_with(space_symbol))
      made.resize(made.size() - space_symbol.size());
  return made;
}

result<unknown_characters> unknown_characters::create(const vocabulary& vocab) {
  unknown_characters made;
  std::array<token_id, 256> ids{};
  ids.fill(-1);
  std::size_t count = 0;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.kinds[id] == token_kind::unknown && made.unknown_ < 0)
      made.unknown_ = static_cast<token_id>(id);
    if (vocab.kinds[id] != token_kind::byte)
      continue;
    const auto byte = byte_of_notation(vocab.tokens[id]);
    if (!byte)
      return fail(errc::bad_model_file, "the byte token {} is not written as <0x00>: '{}'", id,
                  vocab.tokens[id]);
    if (ids[*byte] < 0) {
      ids[*byte] = static_cast<token_id>(id);
      ++count;
    }
  }
  if (vocab.unknown)
    made.unknown_ = *vocab.unknown;
  if (count == ids.size())
    made.bytes_ = ids;
  else if (count != 0)
    return fail(errc::bad_model_file, "the vocabulary has byte tokens for {} of 256 bytes", count);
  else if (made.unknown_ < 0)
    return fail(errc::bad_model_file, "the vocabulary has neither byte tokens nor an unknown token "
                                      "for characters that it lacks");
  return made;
}

void unknown_characters::append(std::span<const token_id> more, std::size_t begin,
                                std::vector<token_id>& ids) const {
  if (!bytes_ && !more.empty() && more.front() == unknown_ && ids.size() > begin &&
      ids.back() == unknown_)
    more = more.subspan(1);
  ids.insert(ids.end(), more.begin(), more.end());
}

void unknown_characters::append_character(std::string_view character, std::size_t begin,
                                          std::vector<token_id>& ids) const {
  if (!bytes_)
    return append(std::span(&unknown_, 1), begin, ids);
  for (const char byte : character)
    ids.push_back((*bytes_)[static_cast<unsigned char>(byte)]);
}

} // namespace baton::text
