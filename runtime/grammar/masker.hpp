// The masks of the last stage: the tokens that sampling may choose under a constraint. The result
// depends only on the constraint and the ids, so a recomputed step samples the same token in any
// process. Grammars, states and masks are cached within bounds. Not thread-safe: used by the thread
// that runs the steps.
#pragma once

#include "runtime/grammar/automata/automaton.hpp"
#include "runtime/grammar/automata/mask_maker.hpp"
#include "schema/constraint.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace baton::grammar {

struct masker_limits {
  std::size_t grammars = 64;
  std::size_t sequences = 1024;
  std::size_t grammar_bytes = 64u << 20; // of states and masks; above it, they are discarded
  std::size_t step_bytes = 128u << 20;   // of one mask
  std::uint64_t step_work = 4'000'000;   // ways visited for one mask: some 100 ms at most
  std::uint64_t token_work = 100'000;    // additional, for each id that is followed
  std::size_t bytes = 256u << 20;        // of all grammars
};

class masker {
public:
  // Reads the vocabulary's texts for the first mask: most processes never need them.
  using texts_source = std::function<result<answer_texts>()>;
  explicit masker(texts_source texts, masker_limits limits = {});
  explicit masker(answer_texts texts, masker_limits limits = {});

  // The tokens allowed after `output`, the sequence's ids so far. After an end token, or ids that
  // do not match (a rejected draft), only end tokens: a token sampled there is discarded.
  // `sequence` only selects the cached trail. Errors: as compile() and the source, unprocessable
  // (no token of the vocabulary can follow; over the memory or time limit).
  result<void> find(const shared_constraint& of, sequence_id sequence,
                    std::span<const token_id> output, token_bits& out);

private:
  struct grammar_state {
    shared_constraint key;
    std::shared_ptr<const graph> rules;
    automaton states;
    // By state, and whether it begins a text. Equal masks, as within a bounded string, are stored
    // once.
    std::unordered_map<std::uint64_t, std::shared_ptr<const mask_maker::mask>> masks;
    std::unordered_multimap<std::size_t, std::shared_ptr<const mask_maker::mask>> distinct;
    std::size_t mask_bytes = 0;
    std::uint64_t generation = 0; // of the numbering of its states

    std::size_t bytes() const noexcept { return states.bytes() + mask_bytes; }
  };
  // The states after 0, 1, ... ids of a sequence.
  struct trail {
    const grammar_state* of = nullptr;
    std::uint64_t generation = 0;
    std::vector<token_id> ids;
    std::vector<automaton::state> states;
  };
  struct followed_sequence {
    sequence_id sequence;
    trail path;
  };

  // The token that ends reasoning; nullopt: no single token does.
  struct reasoning_end {
    reasoning_format format = reasoning_format::none;
    std::optional<token_id> close;
  };
  std::optional<token_id> close_of(reasoning_format format);
  // How many tokens open the reasoning with which `output` begins; nullopt: it does not, or not
  // yet.
  std::optional<std::size_t> opening_of(reasoning_format format,
                                        std::span<const token_id> output) const;
  // The token that must follow, because the reasoning has all the tokens that it may have. nullopt:
  // any that the grammar allows.
  result<std::optional<token_id>> end_of_reasoning(const constraint& of,
                                                   std::span<const token_id> output);
  result<grammar_state*> grammar_of(const shared_constraint& c);
  void restart(grammar_state& g);
  trail& trail_of(sequence_id sequence);
  std::optional<automaton::state>
  follow(grammar_state& g, trail& t, std::span<const token_id> output, const mask_budget& budget);
  automaton::state advance(grammar_state& g, automaton::state from, token_id id, bool is_first);
  const mask_maker::mask* mask_of(grammar_state& g, automaton::state s, bool is_first,
                                  const mask_budget& budget);
  void keep_bounds();

  texts_source source_;
  std::optional<mask_maker> maker_; // set once the texts are read
  masker_limits limits_;
  mask_maker::mask end_;
  std::list<grammar_state> grammars_;               // most recently used first
  std::list<followed_sequence> followed_sequences_; // likewise
  std::unordered_map<sequence_id, std::list<followed_sequence>::iterator> trail_index_;
  std::uint64_t generations_ = 0;
  reasoning_end close_; // of the format that was looked for last
};

} // namespace baton::grammar
