// The tokenizer: text to ids and ids to bytes. Built once from a vocabulary, then immutable: any
// number of threads may use it, each with its own encode_scratch. Special tokens come only from
// segments and prompts that allow them, so user text in a chat never yields one. One of three
// encoders cuts ordinary text into tokens, chosen by the vocabulary's model:
//
//   gpt2: byte_level_bpe     llama: sentencepiece_bpe     t5: unigram
#pragma once

#include "runtime/text/bpe/token_table.hpp"
#include "runtime/text/pre_tokenizers/segment.hpp"
#include "runtime/text/pre_tokenizers/text_steps.hpp"
#include "runtime/text/tokenizer/byte_level_bpe.hpp"
#include "runtime/text/tokenizer/encode_scratch.hpp"
#include "runtime/text/tokenizer/sentencepiece_bpe.hpp"
#include "runtime/text/tokenizer/special_tokens.hpp"
#include "runtime/text/tokenizer/unigram.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace baton::text {

class tokenizer {
public:
  // Errors: those of validate() and of the encoder's create().
  static result<tokenizer> create(const vocabulary& vocab);

  // Ids of the joined segments, without BOS. Text between special tokens is tokenized across
  // segment borders. Special tokens (leftmost, then longest) are found only where special_allowed
  // segments contain them whole. In SentencePiece models, `is_command_token` in the source decides
  // which tokens are special; other user-defined tokens are found in any text. In "gpt2", an
  // invalid byte becomes its token, or those of U+FFFD if the vocabulary lacks it; a missing byte
  // within valid UTF-8 (rare control characters) is dropped. In "llama" and "t5", each invalid byte
  // becomes U+FFFD. The leading space is put before the first text and after each special token.
  // All as in the reference encoders. Errors: payload_too_large (encode_bytes_max), internal.
  result<std::vector<token_id>> encode(std::span<const text_segment> segments,
                                       encode_scratch& scratch) const;
  result<std::vector<token_id>> encode(std::span<const text_segment> segments) const;

  // User text: never a special token, no BOS.
  result<std::vector<token_id>> encode_text(std::string_view text, encode_scratch& scratch) const;
  result<std::vector<token_id>> encode_text(std::string_view text) const;
  // A whole prompt. `parses_special`: special tokens are found everywhere, since the author has
  // applied the chat template. `adds_special`: adds BOS if the model's prompts begin with it.
  result<std::vector<token_id>> encode_prompt(std::string_view text, bool parses_special,
                                              bool adds_special, encode_scratch& scratch) const;
  result<std::vector<token_id>> encode_prompt(std::string_view text, bool parses_special) const;

  // The ids of a prompt, with BOS added if the model's prompts begin with it.
  std::vector<token_id> with_special(std::vector<token_id> prompt) const;

  std::size_t size() const noexcept { return tokens_.size(); }
  bool contains(token_id id) const noexcept { return tokens_.contains(id); }
  // The token's bytes; often not whole UTF-8 characters. Empty for an id outside the vocabulary:
  // embedding matrices are padded, so a model can emit such ids. Valid as long as the tokenizer.
  std::string_view piece(token_id id) const noexcept { return tokens_.bytes(id); }
  // The same within a text. If `is_first`, drops the space that the encoder puts before a text.
  // Sets `is_first` to whether the next token is still the first.
  std::string_view next_piece(token_id id, bool& is_first) const noexcept;
  // Control tokens steer the model and are not shown to users.
  bool is_control(token_id id) const noexcept;
  // Whether the token can be part of an answer: neither a control token nor padding.
  bool is_text(token_id id) const noexcept;
  // Id of the control or user-defined token with exactly this text.
  std::optional<token_id> special_id(std::string_view text) const;

  // All bytes of the ids, as a text from its beginning. Errors: invalid_value (an id outside the
  // vocabulary).
  result<std::string> decode_bytes(std::span<const token_id> ids, bool skip_special) const;
  // The same as UTF-8, with U+FFFD for invalid bytes.
  result<std::string> decode(std::span<const token_id> ids, bool skip_special) const;

  std::optional<token_id> bos() const noexcept { return bos_; }
  std::optional<token_id> eos() const noexcept { return eos_; }
  bool adds_bos() const noexcept { return adds_bos_; }
  // Tokens that end an answer: eos, eot and well-known control tokens. Sorted.
  std::span<const token_id> end_ids() const noexcept { return end_ids_; }
  // Differs between vocabularies; the same on every machine.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
  using encoder = std::variant<byte_level_bpe, sentencepiece_bpe, unigram>;

  tokenizer(token_table tokens, encoder ordinary, text_steps steps)
      : tokens_(std::move(tokens)), encoder_(std::move(ordinary)), steps_(std::move(steps)),
        specials_({}) {}

  static result<encoder> encoder_of(const vocabulary& vocab, const token_table& tokens);
  void add_special_tokens(const vocabulary& vocab, std::span<const token_id> in_any_text);
  void find_end_tokens(const vocabulary& vocab);
  void take_fingerprint(const vocabulary& vocab);
  result<std::vector<token_id>> encode_ranges(std::string_view text,
                                              std::span<const text_range> trusted,
                                              encode_scratch& scratch) const;
  // Text between special tokens.
  result<void> encode_ordinary(std::string_view text, bool is_start, encode_scratch& scratch,
                               std::vector<token_id>& ids) const;

  token_table tokens_;
  encoder encoder_;
  text_steps steps_;
  special_tokens specials_;
  std::unordered_map<std::string_view, token_id> special_; // by text; views into tokens_
  std::optional<token_id> bos_;
  std::optional<token_id> eos_;
  std::vector<token_id> end_ids_;
  bool adds_bos_ = false;
  bool strips_space_ = false;  // the encoder may put a space before a text
  bool strips_spaces_ = false; // the encoder also removes existing spaces
  leading_space metaspace_ = leading_space::never;
  std::vector<token_id> strips_left_, strips_right_;
  std::uint64_t fingerprint_ = 0;
};

} // namespace baton::text
