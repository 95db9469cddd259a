// Merges word by word; see sentencepiece_bpe.hpp. Cutting the text is exact. Nothing merges across
// a user-defined token, across a character that occurs in no token, or (if the vocabulary splits at
// spaces) into a space that follows a word.
#include "runtime/text/tokenizer/sentencepiece_bpe.hpp"

namespace baton::text {

result<sentencepiece_bpe> sentencepiece_bpe::create(const vocabulary& vocab) {
  auto normalizer = sentencepiece_normalizer::create(vocab);
  if (!normalizer)
    return normalizer.error();
  auto unknown = unknown_characters::create(vocab);
  if (!unknown)
    return unknown.error();
  auto merges = scored_merges::create(vocab);
  if (!merges)
    return merges.error();
  return sentencepiece_bpe(std::move(*normalizer), std::move(*unknown), std::move(*merges), vocab);
}

result<void> sentencepiece_bpe::encode(std::string_view text, encode_scratch& scratch,
                                       std::vector<token_id>& ids) const {
  const auto normalized = normalizer_.normalize(text);
  if (!normalized)
    return normalized.error();
  scratch.steps_ += normalized->size();
  std::size_t begin = ids.size(); // from here on, consecutive unknown characters share a token
  for (std::string_view rest = *normalized; !rest.empty();) {
    if (const auto whole = normalizer_.user_defined().longest(rest)) {
      ids.push_back(whole->id);
      rest.remove_prefix(whole->length);
      continue;
    }
    const std::string_view word = rest.substr(0, word_bytes(rest));
    rest.remove_prefix(word.size());
    if (splits_at_spaces_)
      begin = ids.size();
    if (const auto cached = scratch.cache_.find(word); !cached.empty()) {
      unknown_.append(cached, begin, ids);
      continue;
    }
    encode_word(word, scratch);
    scratch.cache_.put(word, scratch.word_ids_);
    unknown_.append(scratch.word_ids_, begin, ids);
  }
  return {};
}

std::size_t sentencepiece_bpe::word_bytes(std::string_view text) const noexcept {
  const piece_trie& user_defined = normalizer_.user_defined();
  bool after_space = text.starts_with(space_symbol);
  std::size_t at = character_bytes(text);
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const bool is_space = rest.starts_with(space_symbol);
    if (is_space && (splits_at_spaces_ || (!after_space && merges_.words_end_at_spaces)))
      break;
    if (user_defined.longest(rest))
      break;
    after_space = is_space;
    at += character_bytes(rest);
  }
  return at;
}

void sentencepiece_bpe::encode_word(std::string_view word, encode_scratch& scratch) const {
  scratch.word_ids_.clear();
  scratch.symbols_.clear();
  while (!word.empty()) {
    const std::string_view character = word.substr(0, character_bytes(word));
    word.remove_prefix(character.size());
    if (const auto symbol = merges_.characters.find(character)) {
      scratch.symbols_.push_back(*symbol);
      continue;
    }
    merge_symbols(scratch);
    unknown_.append_character(character, 0, scratch.word_ids_);
  }
  merge_symbols(scratch);
}

void sentencepiece_bpe::merge_symbols(encode_scratch& scratch) const {
  scratch.steps_ += merges_.merges.apply(scratch.symbols_);
  for (const token_id symbol : scratch.symbols_) {
    const auto at = static_cast<std::size_t>(symbol);
    if (at < tokens_)
      scratch.word_ids_.push_back(symbol);
    else
      unknown_.append_character(merges_.bare_characters[at - tokens_], 0, scratch.word_ids_);
  }
  scratch.symbols_.clear();
}

} // namespace baton::text
