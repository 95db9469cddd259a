// Checks of every guarantee in runtime/engine/engine.hpp, for the author of an engine to run
// (docs/develop/engines.md). They use only that interface and see a scheduler's view: samples with
// log-probabilities, and activations for the next stage. They are doctest checks; call them from a
// test case, one by one or all with check_engine().
#pragma once

#include "runtime/engine/engine.hpp"
#include "runtime/grammar/masker.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace baton::conformance {

using stages = std::vector<std::unique_ptr<engine::engine>>;

// An engine with a model of the author's choice, small enough to run a few thousand rows. Requires:
// at least 2 layers, 12 blocks, 2 blocks of swap space and 8 state slots if there are any. The
// context has 3 blocks, rows_max is a context, and the limits are the same at every stage.
struct subject {
  std::string name;
  std::uint32_t layers = 2;
  // Fresh engines, in order: stage i has the layers [cuts[i-1], cuts[i]), where the missing ends
  // are 0 and `layers`. The masker is for the last stage, null for most checks.
  using masker = std::shared_ptr<grammar::masker>;
  std::function<stages(const std::vector<std::uint32_t>& cuts, const masker& constrains)> make;
  // Between log-probabilities of the same row with other neighbours, chunks or stages, in nats. 0:
  // bit-identical results are promised.
  float tolerance = 0;
  // Activations are numbers, some of them not finite; otherwise they are an engine's own encoding.
  bool has_real_activations = true;
};

void checks_limits(const subject& s);             // capacities are valid and those of one model
void refuses_bad_batches(const subject& s);       // with invalid_value, and without side effects
void chunks_do_not_show(const subject& s);        // however a prompt is cut into steps
void company_does_not_show(const subject& s);     // whatever other rows are in the step
void stages_do_not_show(const subject& s);        // wherever the layers are cut
void blocks_are_as_named(const subject& s);       // any blocks, in any order, shared where read
void copies_bring_back(const subject& s);         // a block from swap space, into another block
void redone_steps_are_the_same(const subject& s); // also over stale data
void drafts_are_rows(const subject& s);           // the row after each draft equals a step's result
void draws_by_the_contract(const subject& s);     // of sampler.hpp, on the engine's own logits
void constraints_are_kept(const subject& s);      // and none is ignored without a vocabulary
void pools_rows(const subject& s);                // to an embedding, or refuses by name
void states_are_in_slots(const subject& s);       // any slots, which only their writer changes
void keeps_rows(const subject& s);                // that may be kept, whatever steps follow
void scores_prompts(const subject& s);            // as draws of each row would, or refuses by name
void begun_steps_do_not_show(const subject& s);   // whether they come or not
void fed_steps_do_not_show(const subject& s);     // begun before their tokens were drawn
void reports_overflow(const subject& s);          // rows that are not finite fail the step

// All of these.
void check_engine(const subject& s);

} // namespace baton::conformance
