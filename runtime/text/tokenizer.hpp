// Byte-level BPE tokenizer: text to ids and ids to bytes. Built once from a vocabulary, then
// immutable: any number of threads may use it, each with its own encode_scratch. Special tokens
// come only from segments that allow them, so a user's text never yields one.
#pragma once

#include "runtime/text/merge_table.hpp"
#include "runtime/text/piece_cache.hpp"
#include "runtime/text/pre_tokenizer.hpp"
#include "runtime/text/segment.hpp"
#include "runtime/text/special_tokens.hpp"
#include "runtime/text/vocabulary.hpp"
#include "schema/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::text {

// Longest text of one call. A million tokens of prose, more than any context, have about 5 MB; a
// run of one letter this long takes some 250 MB while it is merged.
inline constexpr std::size_t encode_bytes_max = std::size_t{8} << 20U;

// Working memory of encode calls: reuse it to keep the ids of common words. One thread at a time.
class encode_scratch {
public:
  explicit encode_scratch(std::size_t cached_pieces = piece_cache::slots_default)
      : cache_(cached_pieces) {}

private:
  friend class tokenizer;
  piece_cache cache_;
  std::uint64_t vocabulary_ = 0; // whose ids are in the cache
  std::vector<text_range> pieces_;
  std::vector<token_id> symbols_;
};

class tokenizer {
public:
  // Errors: those of validate(); unsupported_model (unknown pre-tokenizer, named); bad_model_file
  // (a merge that is no pair of tokens, a vocabulary without tokens for letters).
  static result<tokenizer> create(const vocabulary& words);

  // Ids of the segments as if they were one text, no BOS added. Text between special tokens is
  // tokenized across the borders of segments; special tokens (leftmost, then longest) are found
  // only where special_allowed segments hold them whole. Bytes that are not UTF-8 become the tokens
  // of the single bytes, or those of U+FFFD if the vocabulary lacks the byte; a lacking byte within
  // valid UTF-8 (rare control characters) has no id and is left out, as in the reference encoders.
  // Errors: payload_too_large (encode_bytes_max), internal.
  result<std::vector<token_id>> encode(std::span<const text_segment> segments,
                                       encode_scratch& scratch) const;
  result<std::vector<token_id>> encode(std::span<const text_segment> segments) const;

  // A user's text: never a special token, no BOS.
  result<std::vector<token_id>> encode_text(std::string_view text, encode_scratch& scratch) const;
  result<std::vector<token_id>> encode_text(std::string_view text) const;
  // The same after BOS, where the model's prompts begin with it.
  result<std::vector<token_id>> encode_prompt(std::string_view text, encode_scratch& scratch) const;
  result<std::vector<token_id>> encode_prompt(std::string_view text) const;

  std::size_t size() const noexcept { return kinds_.size(); }
  bool contains(token_id id) const noexcept {
    return id >= 0 && static_cast<std::size_t>(id) < size();
  }
  // The token's bytes; often no whole UTF-8 characters. Empty for an id outside the vocabulary:
  // embedding matrices are padded, so a model can emit such ids. Valid as long as the tokenizer.
  std::string_view piece(token_id id) const noexcept;
  // Control tokens steer the model and are not shown to readers.
  bool is_control(token_id id) const noexcept;
  // Id of the control or user-defined token with this very text.
  std::optional<token_id> special_id(std::string_view text) const;

  // All bytes of the ids, as they are. Errors: invalid_value (an id outside the vocabulary).
  result<std::string> decode_bytes(std::span<const token_id> ids, bool skip_special) const;
  // The same as UTF-8, with U+FFFD for what is none.
  result<std::string> decode(std::span<const token_id> ids, bool skip_special) const;

  std::optional<token_id> bos() const noexcept { return bos_; }
  std::optional<token_id> eos() const noexcept { return eos_; }
  bool adds_bos() const noexcept { return adds_bos_; }
  // Tokens that end an answer: eos, eot and control tokens that are known to. Sorted.
  std::span<const token_id> end_ids() const noexcept { return end_ids_; }
  // Differs between vocabularies; the same on every machine.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
  tokenizer(pre_tokenizer pre, std::size_t merges)
      : pre_tokenizer_(std::move(pre)), merges_(merges), specials_({}) {}

  result<void> add_tokens(const vocabulary& words);
  result<void> add_merges(const vocabulary& words);
  void add_special_tokens(const vocabulary& words);
  void find_end_tokens(const vocabulary& words);
  result<void> encode_ordinary(std::string_view text, encode_scratch& scratch,
                               std::vector<token_id>& ids) const;
  result<void> encode_valid(std::string_view text, encode_scratch& scratch,
                            std::vector<token_id>& ids) const;
  void encode_piece(std::string_view piece, encode_scratch& scratch,
                    std::vector<token_id>& ids) const;
  result<std::vector<token_id>> encode_ranges(std::string_view text,
                                              std::span<const text_range> trusted,
                                              encode_scratch& scratch) const;

  pre_tokenizer pre_tokenizer_;
  merge_table merges_;
  special_tokens specials_;
  std::vector<char> bytes_;                                 // of all tokens, one after the other
  std::vector<std::uint32_t> starts_;                       // [size() + 1] into bytes_
  std::vector<token_kind> kinds_;                           // [size()]
  std::unordered_map<std::string_view, token_id> ordinary_; // by bytes; views into bytes_
  std::unordered_map<std::string_view, token_id> special_;  // by text; views into bytes_
  std::array<token_id, 256> byte_ids_{};                    // no_token: the vocabulary lacks it
  std::optional<token_id> bos_;
  std::optional<token_id> eos_;
  std::vector<token_id> end_ids_;
  bool adds_bos_ = false;
  std::uint64_t fingerprint_ = 0;
};

} // namespace baton::text
