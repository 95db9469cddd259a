// The merges of a SentencePiece vocabulary. Scored tokens imply them: any two symbols whose joined
// text is a token may merge, and higher scores merge earlier. A converted vocabulary lists them
// instead. Built once for sentencepiece_bpe.
#pragma once

#include "runtime/text/bpe/merge_table.hpp"
#include "runtime/text/bpe/piece_trie.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"
#include "schema/result.hpp"

#include <string>
#include <vector>

namespace baton::text {

struct scored_merges {
  // Requires: `vocab` has passed validate() and is a SentencePiece vocabulary. Errors:
  // bad_model_file (more merges than vocabulary_limits, or one that is not a pair of tokens).
  static result<scored_merges> create(const vocabulary& vocab);

  piece_trie characters; // initial symbols, by character
  merge_table merges;
  // Characters that occur in tokens but are not tokens themselves. Their symbols are the ids from
  // the vocabulary's size up.
  std::vector<std::string> bare_characters;
  // No token continues after a space that follows other text, so words merge independently.
  bool words_end_at_spaces;
};

} // namespace baton::text
