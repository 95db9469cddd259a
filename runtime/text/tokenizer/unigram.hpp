// SentencePiece's unigram model ("t5" in GGUF files). It cuts the text into the tokens with the
// highest sum of scores, by dynamic programming (Kudo 2018, arXiv:1804.10959). One of the
// tokenizer's encoders.
#pragma once

#include "runtime/text/bpe/piece_trie.hpp"
#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/tokenizer/encode_scratch.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::text {

class unigram {
public:
  // Errors: bad_model_file (as in sentencepiece_text.hpp; no ordinary tokens).
  static result<unigram> create(const vocabulary& vocab);

  // Appends the ids of text without special tokens. Time and memory are linear in the text: at each
  // character, the lookahead is at most the longest token. Errors: payload_too_large (after
  // normalization).
  result<void> encode(std::string_view text, encode_scratch& scratch,
                      std::vector<token_id>& ids) const;

  // If the file does not specify it.
  static bool adds_bos() noexcept { return false; }

private:
  // The best way to cut a text up to an offset: its last token, and where that begins. The score is
  // a float or a double as in the reference, because rounding decides between equally good ways.
  template <class Score>
  struct path_end {
    Score score = 0;
    token_id id = unreached;
    std::uint32_t begin = 0;
  };
  static constexpr token_id unreached = -1;
  static constexpr token_id no_token = -2; // a character without a token

  unigram(sentencepiece_normalizer normalizer, unknown_characters unknown, const vocabulary& vocab);
  void set_scores(const vocabulary& vocab);

  template <class Score>
  std::vector<path_end<Score>> best_paths(std::string_view text, encode_scratch& scratch) const;
  // Requires: `text` is normalized.
  template <class Score>
  void encode_piece(std::string_view text, encode_scratch& scratch,
                    std::vector<token_id>& ids) const;

  sentencepiece_normalizer normalizer_;
  unknown_characters unknown_;
  piece_trie tokens_;
  bool splits_at_spaces_;
  bool sums_as_double_;
  std::vector<double> scores_; // [ids]
  double unknown_score_ = 0;
};

} // namespace baton::text
