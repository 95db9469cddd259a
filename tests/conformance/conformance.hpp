// What every engine of the seam in runtime/engine/engine.hpp promises, as checks that its author
// can run: docs/develop/engines.md says how. It drives engines through the seam alone, and sees
// what a scheduler sees: samples with their log-probabilities, and activations that go to the next
// stage. Checks are doctest's; call them from a test case, each by itself or all with
// check_engine().
#pragma once

#include "runtime/engine/engine.hpp"
#include "runtime/grammar/masker.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace baton::conformance {

using stages = std::vector<std::unique_ptr<engine::engine>>;

// An engine with a model of the author's choice, small enough to run a few thousand rows.
// Requires of it: at least 2 layers, 12 blocks, 2 blocks of swap space if there is any, a context
// of 3 blocks, rows_max of a context; the same limits at every stage.
struct subject {
  std::string name;
  std::uint32_t layers = 2;
  // Fresh engines, in order: stage i has the layers [cuts[i-1], cuts[i]), where the missing ends
  // are 0 and `layers`. The masker is for the last stage, null for most checks.
  using masker = std::shared_ptr<grammar::masker>;
  std::function<stages(const std::vector<std::uint32_t>& cuts, const masker& constrains)> make;
  // Between log-probabilities of the same row in other company, chunks or stages, in nats. 0: the
  // same bits are promised.
  float tolerance = 0;
  // Activations are numbers, of which some are none; else they are an engine's own code.
  bool has_real_activations = true;
};

void checks_limits(const subject& s);         // capacities are sound and those of one model
void refuses_bad_batches(const subject& s);   // by invalid_value, and nothing is changed by them
void chunks_do_not_show(const subject& s);    // however a prompt is cut into steps
void company_does_not_show(const subject& s); // whatever other rows are in the step
void stages_do_not_show(const subject& s);    // wherever the layers are cut
void blocks_are_as_named(const subject& s);   // any blocks, in any order, shared where read
void copies_bring_back(const subject& s);     // a block from swap space, into another block
void redone_steps_are_the_same(const subject& s); // also over what was left behind
void drafts_are_rows(const subject& s);           // behind each guess lies what a step would give
void draws_by_the_contract(const subject& s);     // of sampler.hpp, over the engine's own logits
void constraints_are_kept(const subject& s);      // and none is passed over without a vocabulary
void pools_rows(const subject& s);                // to an embedding, or refuses by name
void keeps_rows(const subject& s);                // that may be kept, whatever steps come behind
void scores_prompts(const subject& s);            // as draws of each row would, or refuses by name
void begun_steps_do_not_show(const subject& s);   // whether they come or not
void fed_steps_do_not_show(const subject& s);     // begun before their tokens were drawn
void reports_overflow(const subject& s);          // rows that are no numbers fail the step

// All of these.
void check_engine(const subject& s);

} // namespace baton::conformance
