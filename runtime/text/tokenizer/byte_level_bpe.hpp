// GPT-2's byte-level BPE: splits text by a pre-tokenizer's patterns, then merges bytes by rank. One
// of the tokenizer's encoders.
#pragma once

#include "runtime/text/bpe/merge_table.hpp"
#include "runtime/text/bpe/token_table.hpp"
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"
#include "runtime/text/tokenizer/encode_scratch.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::text {

class byte_level_bpe {
public:
  // Requires: `tokens` belong to `vocab`, and their bytes outlive this object. Errors:
  // unsupported_model (an unknown pre-tokenizer, named); bad_model_file (a merge that is not a pair
  // of tokens, a vocabulary without tokens for letters).
  static result<byte_level_bpe> create(const vocabulary& vocab, const token_table& tokens);

  // Appends the ids of text without special tokens. Errors: internal.
  result<void> encode(std::string_view text, encode_scratch& scratch,
                      std::vector<token_id>& ids) const;

  bool adds_bos() const noexcept { return pre_tokenizer_.adds_bos(); }

private:
  byte_level_bpe(pre_tokenizer pre, std::size_t merges)
      : pre_tokenizer_(std::move(pre)), merges_(merges) {}

  result<void> add_tokens(const token_table& tokens);
  result<void> add_merges(const vocabulary& vocab, const token_table& tokens);
  result<void> encode_valid(std::string_view text, encode_scratch& scratch,
                            std::vector<token_id>& ids) const;
  void encode_piece(std::string_view piece, encode_scratch& scratch,
                    std::vector<token_id>& ids) const;

  pre_tokenizer pre_tokenizer_;
  merge_table merges_;
  std::unordered_map<std::string_view, token_id> ordinary_; // by bytes
  std::array<token_id, 256> byte_ids_{};                    // no_token: missing in the vocabulary
};

} // namespace baton::text
