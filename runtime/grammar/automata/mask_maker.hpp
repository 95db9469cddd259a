// Finds the tokens allowed in a state: those whose bytes the grammar accepts from there. Most
// tokens are words and plain text, and most states accept either all tokens of a kind or few. So
// tokens are grouped by kind, and a state that accepts any text of a kind skips the walk over it.
// (XGrammar, arXiv 2411.15100, and llguidance divide the vocabulary for the same reason.)
#pragma once

#include "runtime/grammar/automata/automaton.hpp"
#include "runtime/grammar/automata/character_set.hpp"
#include "runtime/grammar/automata/token_trie.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::grammar {

// The token texts of a vocabulary. Immutable.
struct answer_texts {
  // [ids]; empty: never allowed (unused ones). For control tokens see control_text.hpp.
  std::vector<std::string> all;
  // [ids] texts as first tokens, if some tokens lose a leading space there; else empty.
  std::vector<std::string> first;
  std::vector<token_id> end_ids; // allowed only where the grammar accepts
};
answer_texts texts_of(const text::tokenizer& tokenizer);

// Allowed tokens: bit id % 64 of word id / 64.
using token_bits = std::vector<std::uint64_t>;

// Limits for one mask; both are counted since the automaton's creation.
struct mask_budget {
  std::size_t bytes = 0;
  std::uint64_t work = 0;
  bool is_spent(const automaton& a) const noexcept { return a.bytes() > bytes || a.work() > work; }
};

class mask_maker {
public:
  explicit mask_maker(answer_texts texts);

  // The parts of the vocabulary that are allowed as a whole, and further single tokens.
  struct mask {
    std::uint8_t parts = 0; // bit i: all of part i
    std::vector<token_id> ids;
    token_bits bits; // replaces `ids` if that is smaller
    bool is_empty = true;
    std::size_t bytes() const noexcept {
      return sizeof(mask) + ids.capacity() * sizeof(token_id) + bits.capacity() * 8;
    }
    std::size_t hash() const noexcept;
    friend bool operator==(const mask&, const mask&) = default;
  };

  // Walks the vocabulary. `begins_text`: uses the texts of first tokens. The mask includes end
  // tokens. nullopt: the budget is spent.
  std::optional<mask> make(automaton& of, automaton::state s, bool begins_text,
                           const mask_budget& budget) const;
  // Allows only end tokens.
  mask make_end() const;
  // Writes all words of `out`: size() bits.
  void fill(const mask& from, token_bits& out) const;

  const answer_texts& texts() const noexcept { return texts_; }
  std::size_t size() const noexcept { return texts_.all.size(); }

  // Texts of one kind: a character of one set, then up to a limit of another set.
  struct part {
    token_trie texts;
    token_bits bits; // these texts, and those of other parts that also are of this kind
    std::vector<byte_pattern> first, rest;
  };

private:
  // The parts from which any text is allowed.
  std::uint8_t parts_taken(automaton& of, automaton::state s, const mask_budget& budget) const;
  bool walk(automaton& of, automaton::state s, const token_trie& texts, const mask_budget& budget,
            std::vector<token_id>& out) const;

  answer_texts texts_;
  std::vector<part> parts_;
  token_trie others_; // in none of the parts
  token_trie first_;  // all of them, as first tokens
};

} // namespace baton::grammar
