// Text processing of the SentencePiece models besides the choice of tokens. Spaces become U+2581,
// one may be added before the text, and runs may shrink to one. A character without a token becomes
// its bytes or the unknown token. Shared by sentencepiece_bpe and unigram. (Kudo and Richardson
// 2018, arXiv:1808.06226; https://github.com/google/sentencepiece)
#pragma once

#include "runtime/text/bpe/piece_trie.hpp"
#include "runtime/text/unicode/character_map.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

inline constexpr std::string_view space_symbol = "\xE2\x96\x81"; // U+2581, a space within tokens

// Replaces every `from` with `to`. Requires: `from` is not empty.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);
std::string with_plain_spaces(std::string_view token);
std::string with_space_symbols(std::string_view text);

// Size of the first character. Requires: text is UTF-8 and not empty.
std::size_t character_bytes(std::string_view text) noexcept;

// Four times encode_bytes_max. A space becomes three bytes; only a character map or a step of
// tokenizer.json can produce more.
inline constexpr std::size_t normalized_bytes_max = std::size_t{40} << 20U;
error too_long_once_normalized();

// Converts text to the form in which tokens are written.
class sentencepiece_normalizer {
public:
  // Errors: bad_model_file (the character map).
  static result<sentencepiece_normalizer> create(const vocabulary& vocab);

  // The result is always UTF-8: each invalid byte becomes U+FFFD. Errors: payload_too_large
  // (normalized_bytes_max).
  result<std::string> normalize(std::string_view text) const;

  // Tokens that take precedence over all others in a normalized text.
  const piece_trie& user_defined() const noexcept { return user_defined_; }

private:
  struct chunk {
    std::string_view as;
    std::size_t length;
  };

  sentencepiece_normalizer(const vocabulary& vocab, character_map map);
  // The replacement of the text's first bytes. User-defined tokens stay as they are.
  chunk first_chunk(std::string_view text) const noexcept;

  bool adds_space_;
  bool removes_spaces_;
  character_map map_;
  piece_trie user_defined_;
};

// Ids for characters without a token.
class unknown_characters {
public:
  // Errors: bad_model_file (incomplete byte tokens, or neither byte tokens nor an unknown token).
  static result<unknown_characters> create(const vocabulary& vocab);

  // Appends `more` to ids[begin..]; consecutive unknown tokens count as one.
  void append(std::span<const token_id> more, std::size_t begin, std::vector<token_id>& ids) const;
  void append_character(std::string_view character, std::size_t begin,
                        std::vector<token_id>& ids) const;

private:
  unknown_characters() = default;

  std::optional<std::array<token_id, 256>> bytes_; // nullopt: the model has no byte tokens
  token_id unknown_ = -1;                          // used only without byte tokens
};

} // namespace baton::text
