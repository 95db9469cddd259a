// The stages of a subject as one pipeline, and a step of some sequences through it. The checks of
// conformance.cpp are written with it.
#pragma once

#include "tests/conformance/conformance.hpp"

#include <map>
#include <span>
#include <utility>

namespace baton::conformance {

// A sequence's part of a step: `count` of its tokens from `from`, in its blocks.
struct piece {
  const std::vector<token_id>* tokens = nullptr;
  std::uint32_t from = 0, count = 0;
  std::vector<block_index> blocks; // for all its positions; the step passes those it needs
  bool samples = true;
  std::uint32_t drafts = 0;
  std::uint64_t ticket = 1;
};

// Log-probabilities [vocabulary] of one drawn row.
using distribution = std::vector<float>;

class pipeline {
public:
  explicit pipeline(const subject& s, const std::vector<std::uint32_t>& cuts = {},
                    const subject::masker& constrains = nullptr);

  const engine::capacity& limits() const { return stages_.front()->limits(); }
  // A batch of these pieces, whose draws are greedy and ask for all log-probabilities. The
  // recurrent state of a piece is that of its ticket at its position, else another one there. The
  // last slot is never named.
  micro_batch batch_of(const std::vector<piece>& pieces);
  // Through all stages; the samples of the last.
  result<std::vector<sample>> run(const micro_batch& batch);
  // Pooled rows of the last run.
  const std::vector<pooled>& pooled_rows() const noexcept { return pooled_; }
  // Pools the rows of `tokens` in steps of these sizes, the last one repeated, each beside the rows
  // of `company`. Requires: the engine pools.
  std::vector<float> embedding_of(const std::vector<token_id>& tokens,
                                  const std::vector<block_index>& blocks, pooling how,
                                  const std::vector<std::uint32_t>& sizes,
                                  const std::vector<piece>& company = {});
  // The log-probability of each token but the first after those before it, likewise. Requires: the
  // engine scores.
  std::vector<float> scores_of(const std::vector<token_id>& tokens,
                               const std::vector<block_index>& blocks,
                               const std::vector<std::uint32_t>& sizes,
                               const std::vector<piece>& company = {});
  // One distribution for each draw that asks for all log-probabilities.
  std::vector<distribution> distributions_of(const std::vector<sample>& samples) const;
  // The same of a step. Requires: the step succeeds.
  std::vector<distribution> step(const std::vector<piece>& pieces,
                                 std::vector<block_copy> copies = {});
  // Runs `tokens` in steps of these sizes, the last one repeated; returns the result of the last
  // row of the last step.
  distribution last_of(const std::vector<token_id>& tokens, const std::vector<block_index>& blocks,
                       const std::vector<std::uint32_t>& sizes);

private:
  // The state of a ticket behind so many positions.
  using state_key = std::pair<std::uint64_t, std::uint32_t>;
  struct state_place {
    std::uint32_t slot = 0;
    std::uint64_t named = 0; // when
  };
  std::uint32_t state_from(const piece& p);
  std::uint32_t state_to(const piece& p);
  pooled pool_of(const piece& one, const std::vector<piece>& company, pool how);

  stages stages_;
  std::vector<pooled> pooled_;
  std::uint64_t batches_ = 0;
  std::map<state_key, state_place> states_;
  std::uint64_t states_named_ = 0;
};

// Two whole blocks and a part of a third: the length of the sequences in the checks.
std::uint32_t length_of(const engine::capacity& limits);
// So many tokens, which differ by `seed`.
std::vector<token_id> some_tokens(const engine::capacity& limits, std::size_t count,
                                  std::uint32_t seed = 0);
std::vector<block_index> consecutive(block_index first, std::size_t count);
// Compares log-probabilities or an embedding within the subject's tolerance; without one, bit for
// bit.
void check_near(const subject& s, const distribution& expected, const distribution& found);

} // namespace baton::conformance
