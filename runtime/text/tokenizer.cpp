// Construction of the tables from a vocabulary, then encode and decode; see tokenizer.hpp.
#include "runtime/text/tokenizer.hpp"

#include "runtime/text/byte_alphabet.hpp"
#include "runtime/text/utf8.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

namespace {

constexpr token_id no_token = -1;
// For calls without a scratch of the caller's: small, as it is made anew each time.
constexpr std::size_t cached_pieces_of_one_call = 256;

// Turn ends of the well-known chat formats: files name one of them as eos, and models emit others.
constexpr std::array<std::string_view, 8> known_end_texts = {
    "<|im_end|>",      "<|endoftext|>", "<|eot_id|>",    "<|eom_id|>",
    "<|end_of_text|>", "<|end|>",       "<end_of_turn>", "<｜end▁of▁sentence｜>",
};

bool is_white_space(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool is_ordinary(token_kind kind) {
  return kind == token_kind::normal || kind == token_kind::byte;
}

// FNV-1a.
void mix(std::uint64_t& hash, std::string_view bytes) {
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  hash = (hash ^ bytes.size()) * 0x100000001B3ULL;
}

std::optional<unsigned char> byte_of_notation(std::string_view text) { // "<0x4A>"
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>')
    return std::nullopt;
  const std::size_t high = digits.find(text[3]);
  const std::size_t low = digits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos)
    return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string bytes_of(const std::string& text, token_kind kind) {
  if (kind == token_kind::byte)
    if (const auto byte = byte_of_notation(text))
      return {static_cast<char>(*byte)};
  if (is_ordinary(kind))
    if (auto bytes = bytes_of_alphabet_text(text))
      return std::move(*bytes);
  return text; // written as it is: special tokens, and ordinary ones outside the alphabet
}

} // namespace

result<tokenizer> tokenizer::create(const vocabulary& words) {
  if (auto valid = validate(words); !valid)
    return valid.error();
  auto pre = pre_tokenizer::create(words.pre);
  if (!pre)
    return pre.error();
  tokenizer made(std::move(*pre), words.merges.size());
  made.bos_ = words.bos;
  made.eos_ = words.eos;
  made.adds_bos_ = words.bos && words.add_bos.value_or(made.pre_tokenizer_.adds_bos());
  if (auto added = made.add_tokens(words); !added)
    return added.error();
  made.add_special_tokens(words);
  if (auto added = made.add_merges(words); !added)
    return added.error();
  made.find_end_tokens(words);
  return made;
}

result<void> tokenizer::add_tokens(const vocabulary& words) {
  const std::size_t count = words.tokens.size();
  kinds_ = words.kinds;
  starts_.reserve(count + 1);
  fingerprint_ = 0xCBF29CE484222325ULL;
  mix(fingerprint_, words.pre);
  for (std::size_t id = 0; id < count; ++id) {
    starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    const std::string bytes = bytes_of(words.tokens[id], kinds_[id]);
    if (bytes.size() > UINT32_MAX - bytes_.size())
      return fail(errc::bad_model_file, "the vocabulary's tokens have more than 4 GiB together");
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    mix(fingerprint_, bytes);
    mix(fingerprint_, std::string_view(reinterpret_cast<const char*>(&kinds_[id]), 1));
  }
  starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  bytes_.shrink_to_fit();
  ordinary_.reserve(count);
  byte_ids_.fill(no_token);
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<token_id>(i);
    const std::string_view bytes = piece(id);
    const bool counts =
        is_ordinary(kinds_[i]) || (kinds_[i] == token_kind::user_defined && is_white_space(bytes));
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

result<void> tokenizer::add_merges(const vocabulary& words) {
  for (std::size_t rank = 0; rank < words.merges.size(); ++rank) {
    const std::string_view line = words.merges[rank];
    mix(fingerprint_, line);
    const std::size_t space = line.find(' ', 1);
    const auto left = bytes_of_alphabet_text(line.substr(0, space));
    const auto right = space == std::string_view::npos
                           ? std::nullopt
                           : bytes_of_alphabet_text(line.substr(space + 1));
    if (!left || !right || left->empty() || right->empty())
      return fail(errc::bad_model_file, "merge {} is no pair of byte-level tokens: '{}'", rank,
                  line);
    const std::string both = *left + *right;
    const auto left_id = ordinary_.find(*left);
    const auto right_id = ordinary_.find(*right);
    const auto product = ordinary_.find(both);
    if (left_id == ordinary_.end() || right_id == ordinary_.end() || product == ordinary_.end()) {
      // A special token is never put together from a text's bytes, whatever the file says.
      if (special_.contains(*left) || special_.contains(*right) || special_.contains(both))
        continue;
      return fail(errc::bad_model_file, "merge {} ('{}') uses text that is no token", rank, line);
    }
    merges_.add(left_id->second, right_id->second,
                {static_cast<std::uint32_t>(rank), product->second});
  }
  return {};
}

void tokenizer::add_special_tokens(const vocabulary& words) {
  std::vector<special_token> found;
  for (std::size_t i = 0; i < words.tokens.size(); ++i) {
    const token_kind kind = kinds_[i];
    const std::string& text = words.tokens[i];
    const auto id = static_cast<token_id>(i);
    if (text.empty() || is_ordinary(kind) || kind == token_kind::unused)
      continue;
    if (!special_.emplace(piece(id), id).second)
      continue; // the first of two with the same text
    found.push_back({text, id, kind == token_kind::user_defined && is_white_space(text)});
  }
  specials_ = special_tokens(std::move(found));
}

void tokenizer::find_end_tokens(const vocabulary& words) {
  for (const auto& id : {words.eos, words.eot})
    if (id)
      end_ids_.push_back(*id);
  // Where answers have channels, <|end|> ends one message of several; eos ends the answer.
  const bool has_channels = special_id("<|channel|>").has_value();
  for (const std::string_view text : known_end_texts)
    if (const auto id = special_id(text); id && is_control(*id))
      if (text != "<|end|>" || !has_channels)
        end_ids_.push_back(*id);
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

result<std::vector<token_id>> tokenizer::encode(std::span<const text_segment> segments,
                                                encode_scratch& scratch) const {
  std::string text;
  std::vector<text_range> trusted;
  for (const text_segment& segment : segments) {
    if (segment.text.size() > encode_bytes_max - text.size())
      return fail(errc::payload_too_large, "the prompt has more than {} bytes", encode_bytes_max);
    if (segment.text.empty())
      continue;
    const auto begin = static_cast<std::uint32_t>(text.size());
    text += segment.text;
    const auto end = static_cast<std::uint32_t>(text.size());
    if (!segment.special_allowed)
      continue;
    if (!trusted.empty() && trusted.back().end == begin)
      trusted.back().end = end;
    else
      trusted.push_back({begin, end});
  }
  return encode_ranges(text, trusted, scratch);
}

result<std::vector<token_id>> tokenizer::encode(std::span<const text_segment> segments) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode(segments, scratch);
}

result<std::vector<token_id>> tokenizer::encode_text(std::string_view text,
                                                     encode_scratch& scratch) const {
  return encode_ranges(text, {}, scratch);
}

result<std::vector<token_id>> tokenizer::encode_text(std::string_view text) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode_text(text, scratch);
}

result<std::vector<token_id>> tokenizer::encode_prompt(std::string_view text,
                                                       encode_scratch& scratch) const {
  auto ids = encode_text(text, scratch);
  if (ids && adds_bos_)
    ids->insert(ids->begin(), *bos_);
  return ids;
}

result<std::vector<token_id>> tokenizer::encode_prompt(std::string_view text) const {
  encode_scratch scratch(cached_pieces_of_one_call);
  return encode_prompt(text, scratch);
}

result<std::vector<token_id>> tokenizer::encode_ranges(std::string_view text,
                                                       std::span<const text_range> trusted,
                                                       encode_scratch& scratch) const {
  if (text.size() > encode_bytes_max)
    return fail(errc::payload_too_large, "the prompt has {} bytes, more than {}", text.size(),
                encode_bytes_max);
  if (scratch.vocabulary_ != fingerprint_) {
    scratch.cache_.clear();
    scratch.vocabulary_ = fingerprint_;
  }
  std::vector<token_id> ids;
  std::size_t done = 0;
  while (done < text.size()) {
    const auto special = specials_.find(text, done, trusted);
    const std::size_t end = special ? special->where.begin : text.size();
    if (auto encoded = encode_ordinary(text.substr(done, end - done), scratch, ids); !encoded)
      return encoded.error();
    if (special)
      ids.push_back(special->id);
    done = special ? special->where.end : end;
  }
  return ids;
}

result<void> tokenizer::encode_ordinary(std::string_view text, encode_scratch& scratch,
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

result<void> tokenizer::encode_valid(std::string_view text, encode_scratch& scratch,
                                     std::vector<token_id>& ids) const {
  if (text.empty())
    return {};
  if (auto split = pre_tokenizer_.split(text, scratch.pieces_); !split)
    return split;
  for (const text_range piece : scratch.pieces_)
    encode_piece(text.substr(piece.begin, piece.end - piece.begin), scratch, ids);
  return {};
}

void tokenizer::encode_piece(std::string_view piece, encode_scratch& scratch,
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
    for (const char byte : piece)
      if (const token_id id = byte_ids_[static_cast<unsigned char>(byte)]; id != no_token)
        symbols.push_back(id);
    merges_.apply(symbols);
  }
  scratch.cache_.put(piece, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

std::string_view tokenizer::piece(token_id id) const noexcept {
  if (!contains(id))
    return {};
  const auto at = static_cast<std::size_t>(id);
  return {bytes_.data() + starts_[at], starts_[at + 1] - starts_[at]};
}

bool tokenizer::is_control(token_id id) const noexcept {
  if (!contains(id))
    return false;
  const token_kind kind = kinds_[static_cast<std::size_t>(id)];
  return kind == token_kind::control || kind == token_kind::unknown;
}

std::optional<token_id> tokenizer::special_id(std::string_view text) const {
  const auto found = special_.find(text);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

result<std::string> tokenizer::decode_bytes(std::span<const token_id> ids,
                                            bool skip_special) const {
  std::string bytes;
  for (const token_id id : ids) {
    if (!contains(id))
      return fail_param(errc::invalid_value, "tokens",
                        "the token id {} is outside the vocabulary of {}", id, size());
    if (!skip_special || !is_control(id))
      bytes += piece(id);
  }
  return bytes;
}

result<std::string> tokenizer::decode(std::span<const token_id> ids, bool skip_special) const {
  auto bytes = decode_bytes(ids, skip_special);
  if (!bytes)
    return bytes;
  std::string text;
  text.reserve(bytes->size());
  for (std::string_view rest = *bytes; !rest.empty();) {
    const std::size_t valid = utf8_valid_prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty())
      break;
    text += replacement_character;
    rest.remove_prefix(utf8_at(rest, 0).length);
  }
  return text;
}

} // namespace baton::text
