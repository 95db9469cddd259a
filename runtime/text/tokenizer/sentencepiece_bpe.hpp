// SentencePiece's BPE ("llama" in GGUF files: Llama 2, Mistral, TinyLlama, Gemma). It starts with
// characters and always merges the adjacent pair that forms the token of the highest score. One of
// the tokenizer's encoders.
#pragma once

#include "runtime/text/bpe/scored_merges.hpp"
#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/tokenizer/encode_scratch.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace baton::text {

class sentencepiece_bpe {
public:
  // Errors: bad_model_file, as in sentencepiece_text.hpp and scored_merges.hpp.
  static result<sentencepiece_bpe> create(const vocabulary& vocab);

  // Appends ids of text without special tokens. Errors: payload_too_large (once normalized).
  result<void> encode(std::string_view text, encode_scratch& scratch,
                      std::vector<token_id>& ids) const;

  // If the file does not specify it.
  static bool adds_bos() noexcept { return true; }

private:
  sentencepiece_bpe(sentencepiece_normalizer normalizer, unknown_characters unknown,
                    scored_merges merges, const vocabulary& vocab)
      : normalizer_(std::move(normalizer)), unknown_(std::move(unknown)),
        merges_(std::move(merges)), tokens_(vocab.tokens.size()),
        splits_at_spaces_(vocab.splits_at_spaces) {}

  // Size of the first word of `text`. Requires: no user-defined token begins there.
  std::size_t word_bytes(std::string_view text) const noexcept;
  // Writes the word's ids to scratch.word_ids_.
  void encode_word(std::string_view word, encode_scratch& scratch) const;
  void merge_symbols(encode_scratch& scratch) const;

  sentencepiece_normalizer normalizer_;
  unknown_characters unknown_;
  scored_merges merges_;
  std::size_t tokens_; // of the vocabulary; symbols from here up are bare characters
  bool splits_at_spaces_;
};

} // namespace baton::text
