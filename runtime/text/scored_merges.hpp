// The merges of a SentencePiece vocabulary. Scored tokens imply them: any two symbols whose texts
// together are a token's text may merge, the higher the token's score the earlier. A converted
// vocabulary lists them instead. Made once for sentencepiece_bpe.
#pragma once

#include "runtime/text/merge_table.hpp"
#include "runtime/text/piece_trie.hpp"
#include "runtime/text/vocabulary.hpp"
#include "schema/result.hpp"

#include <string>
#include <vector>

namespace baton::text {

struct scored_merges {
  // Requires: `words` has passed validate() and is a SentencePiece vocabulary. Errors:
  // bad_model_file (more merges than vocabulary_limits, or one that is no pair of tokens).
  static result<scored_merges> create(const vocabulary& words);

  piece_trie characters; // symbols to begin with, by character
  merge_table merges;
  // Characters that tokens are made of but that are none alone: their symbols are the ids from the
  // vocabulary's size up.
  std::vector<std::string> bare_characters;
  // No token goes on behind a space that follows something else, so that words merge on their own.
  bool words_end_at_spaces;
};

} // namespace baton::text
