// What the SentencePiece models do to text besides choosing tokens: spaces become U+2581, one may
// go before the text, runs may shrink to one; and a character without a token becomes its bytes or
// the unknown token. Shared by sentencepiece_bpe and unigram. (Kudo and Richardson 2018,
// arXiv:1808.06226; https://github.com/google/sentencepiece)
#pragma once

#include "runtime/text/character_map.hpp"
#include "runtime/text/piece_trie.hpp"
#include "runtime/text/vocabulary.hpp"
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

// Every `from` by `to`. Requires: `from` is not empty.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);
std::string with_plain_spaces(std::string_view token);
std::string with_space_symbols(std::string_view text);

// Bytes of the first character. Requires: text is UTF-8 and not empty.
std::size_t character_bytes(std::string_view text) noexcept;

// Four times encode_bytes_max. A space becomes three bytes; only a character map or a step of
// tokenizer.json can give more.
inline constexpr std::size_t normalized_bytes_max = std::size_t{40} << 20U;
error too_long_once_normalized();

// Text to the form in which tokens are written.
class sentencepiece_normalizer {
public:
  // Errors: bad_model_file (the character map).
  static result<sentencepiece_normalizer> create(const vocabulary& words);

  // UTF-8, whatever `text` is: each byte that is part of no character becomes U+FFFD. Errors:
  // payload_too_large (normalized_bytes_max).
  result<std::string> normalize(std::string_view text) const;

  // Tokens that are found in a normalized text before all others.
  const piece_trie& user_defined() const noexcept { return user_defined_; }

private:
  struct chunk {
    std::string_view as;
    std::size_t length;
  };

  sentencepiece_normalizer(const vocabulary& words, character_map map);
  // What the text's first bytes become. User-defined tokens stay what they are.
  chunk first_chunk(std::string_view text) const noexcept;

  bool adds_space_;
  bool removes_spaces_;
  character_map map_;
  piece_trie user_defined_;
};

// Ids of what no token stands for.
class unknown_characters {
public:
  // Errors: bad_model_file: byte tokens for some bytes only, or neither bytes nor unknown token.
  static result<unknown_characters> create(const vocabulary& words);

  // Puts `more` after ids[begin..]; unknown tokens in a row count as one.
  void append(std::span<const token_id> more, std::size_t begin, std::vector<token_id>& ids) const;
  void append_character(std::string_view character, std::size_t begin,
                        std::vector<token_id>& ids) const;

private:
  unknown_characters() = default;

  std::optional<std::array<token_id, 256>> bytes_; // nothing: the model has no byte tokens
  token_id unknown_ = -1;                          // used only if there are no byte tokens
};

} // namespace baton::text
