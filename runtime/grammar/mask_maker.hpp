// Which tokens may come in a state: those whose bytes the grammar takes from there. Most of a
// vocabulary is words and plain text, and most states take either all of a kind or little of it; so
// the kinds are kept apart, and a state that takes any text of one is spared the walk over it.
// (XGrammar, arXiv 2411.15100, and llguidance part the vocabulary for the same reason.)
#pragma once

#include "runtime/grammar/automaton.hpp"
#include "runtime/grammar/character_set.hpp"
#include "runtime/grammar/token_trie.hpp"
#include "runtime/text/tokenizer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::grammar {

// The texts of a vocabulary as parts of an answer. Immutable.
struct answer_texts {
  std::vector<std::string> all; // [ids]; empty: never allowed (control tokens, unused ones)
  // [ids] of tokens that begin a text of its own, where some lose a space there; else empty.
  std::vector<std::string> first;
  std::vector<token_id> end_ids; // allowed where the grammar accepts, and there alone
};
answer_texts texts_of(const text::tokenizer& words);

// Tokens that may come: bit id % 64 of word id / 64.
using token_bits = std::vector<std::uint64_t>;

// What one mask may need; both are counted from an automaton's beginning.
struct mask_budget {
  std::size_t bytes = 0;
  std::uint64_t work = 0;
  bool is_spent(const automaton& a) const noexcept { return a.bytes() > bytes || a.work() > work; }
};

class mask_maker {
public:
  explicit mask_maker(answer_texts texts);

  // Which of the vocabulary's parts may come as a whole, and which tokens besides.
  struct mask {
    std::uint8_t parts = 0; // bit i: all of part i
    std::vector<token_id> ids;
    token_bits bits; // instead of the ids, if that is shorter
    bool is_empty = true;
    std::size_t bytes() const noexcept {
      return sizeof(mask) + ids.capacity() * sizeof(token_id) + bits.capacity() * 8;
    }
    std::size_t hash() const noexcept;
    friend bool operator==(const mask&, const mask&) = default;
  };

  // Walks the vocabulary; `begins_text`: its tokens' texts are those of first tokens. End tokens
  // are among the mask. Nothing: the budget is spent.
  std::optional<mask> make(automaton& of, automaton::state s, bool begins_text,
                           const mask_budget& budget) const;
  // End tokens alone.
  mask make_end() const;
  // All words of `out` are written: size() bits.
  void fill(const mask& from, token_bits& out) const;

  const answer_texts& texts() const noexcept { return texts_; }
  std::size_t size() const noexcept { return texts_.all.size(); }

  // Texts of one kind: a character of one set, and up to so many of another behind it.
  struct part {
    token_trie texts;
    token_bits bits; // and those of the parts whose texts are of this kind as well
    std::vector<byte_pattern> first, rest;
  };

private:
  // The parts of which any text may come.
  std::uint8_t parts_taken(automaton& of, automaton::state s, const mask_budget& budget) const;
  bool walk(automaton& of, automaton::state s, const token_trie& texts, const mask_budget& budget,
            std::vector<token_id>& out) const;

  answer_texts texts_;
  std::vector<part> parts_;
  token_trie others_; // in none of the parts
  token_trie first_;  // all of them, as first tokens
};

} // namespace baton::grammar
