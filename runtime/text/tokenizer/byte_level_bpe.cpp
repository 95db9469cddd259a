// Builds the tables of byte-level BPE and encodes with them; see byte_level_bpe.hpp.
#include "runtime/text/tokenizer/byte_level_bpe.hpp"

#include "runtime/text/unicode/byte_alphabet.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <string>
#include <unordered_set>
#include <utility>

namespace baton::text {

namespace {

constexpr token_id no_token = -1;

std::unordered_set<std::string_view> special_texts(const token_table& tokens) {
  std::unordered_set<std::string_view> texts;
  for (token_id id = 0; tokens.contains(id); ++id)
    if (is_special(tokens.kind(id)))
      texts.insert(tokens.bytes(id));
  return texts;
}

} // namespace

result<byte_level_bpe> byte_level_bpe::create(const vocabulary& vocab, const token_table& tokens) {
  auto pre = pre_tokenizer::create(vocab.pre);
  if (!pre)
    return pre.error();
  byte_level_bpe made(std::move(*pre), vocab.merges.size());
  if (auto added = made.add_tokens(tokens); !added)
    return added.error();
  if (auto added = made.add_merges(vocab, tokens); !added)
    return added.error();
  return made;
}

result<void> byte_level_bpe::add_tokens(const token_table& tokens) {
  ordinary_.reserve(tokens.size());
  byte_ids_.fill(no_token);
  for (token_id id = 0; tokens.contains(id); ++id) {
    const std::string_view bytes = tokens.bytes(id);
    const token_kind kind = tokens.kind(id);
    const bool counts =
        is_ordinary(kind) || (kind == token_kind::user_defined && is_white_space(bytes));
    if (bytes.empty() || !counts)
      continue;
    ordinary_.emplace(bytes, id);
    token_id& single = byte_ids_[static_cast<unsigned char>(bytes[0])];
    if (bytes.size() == 1 && single == no_token)
      single = id;
  }
  if (byte_ids_['a'] == no_token || byte_ids_['e'] == no_token)
    return fail(errc::bad_model_file, "the vocabulary has no tokens for single letters: it is not "
                                      "a byte-level one");
  return {};
}

result<void> byte_level_bpe::add_merges(const vocabulary& vocab, const token_table& tokens) {
  const auto special = special_texts(tokens);
  for (std::size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const std::string_view line = vocab.merges[rank];
    const std::size_t space = line.find(' ', 1);
    const auto left = bytes_of_alphabet_text(line.substr(0, space));
    const auto right = space == std::string_view::npos
                           ? std::nullopt
                           : bytes_of_alphabet_text(line.substr(space + 1));
    if (!left || !right || left->empty() || right->empty())
      return fail(errc::bad_model_file, "merge {} is not a pair of byte-level tokens: '{}'", rank,
                  line);
    const std::string both = *left + *right;
    const auto left_id = ordinary_.find(*left);
    const auto right_id = ordinary_.find(*right);
    const auto product = ordinary_.find(both);
    if (left_id == ordinary_.end() || right_id == ordinary_.end() || product == ordinary_.end()) {
      // A special token is never merged from a text's bytes, whatever the file contains.
      if (special.contains(*left) || special.contains(*right) || special.contains(both))
        continue;
      return fail(errc::bad_model_file, "merge {} ('{}') uses text that is not a token", rank,
                  line);
    }
    merges_.add(left_id->second, right_id->second,
                {static_cast<std::uint32_t>(rank), product->second});
  }
  return {};
}

result<void> byte_level_bpe::encode(std::string_view text, encode_scratch& scratch,
                                    std::vector<token_id>& ids) const {
  while (!text.empty()) {
    const std::size_t valid = utf8_valid_prefix(text);
    if (auto encoded = encode_valid(text.substr(0, valid), scratch, ids); !encoded)
      return encoded;
    text.remove_prefix(valid);
    if (text.empty())
      break;
    const std::size_t invalid = utf8_at(text, 0).length;
    for (const char byte : text.substr(0, invalid))
      if (const token_id id = byte_ids_[static_cast<unsigned char>(byte)]; id != no_token)
        ids.push_back(id);
      else
        encode_piece(replacement_character, scratch, ids);
    text.remove_prefix(invalid);
  }
  return {};
}

result<void> byte_level_bpe::encode_valid(std::string_view text, encode_scratch& scratch,
                                          std::vector<token_id>& ids) const {
  if (text.empty())
    return {};
  if (auto split = pre_tokenizer_.split(text, scratch.pieces_); !split)
    return split;
  for (const text_range piece : scratch.pieces_)
    encode_piece(text.substr(piece.begin, piece.end - piece.begin), scratch, ids);
  return {};
}

void byte_level_bpe::encode_piece(std::string_view piece, encode_scratch& scratch,
                                  std::vector<token_id>& ids) const {
  if (const auto cached = scratch.cache_.find(piece); !cached.empty()) {
    ids.insert(ids.end(), cached.begin(), cached.end());
    return;
  }
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto whole = pre_tokenizer_.whole_words_first() ? ordinary_.find(piece) : ordinary_.end();
  if (whole != ordinary_.end()) {
    symbols.push_back(whole->second);
  } else {
    symbols.reserve(piece.size());
    for (const char byte : piece)
      if (const token_id id = byte_ids_[static_cast<unsigned char>(byte)]; id != no_token)
        symbols.push_back(id);
    scratch.steps_ += piece.size() + merges_.apply(symbols);
  }
  scratch.cache_.put(piece, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

} // namespace baton::text
