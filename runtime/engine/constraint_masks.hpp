// The token masks of a step's draws, computed before drawing. Used by every engine's last stage.
#pragma once

#include "runtime/engine/sampler.hpp"
#include "runtime/grammar/masker.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <vector>

namespace baton::engine {

class constraint_masks {
public:
  // Without a masker, a constrained draw is an error.
  explicit constraint_masks(std::shared_ptr<grammar::masker> from = nullptr)
      : from_(std::move(from)) {}

  // Computes the masks of all draws of a batch. Errors: those of masker::find;
  // unsupported_parameter (without a vocabulary).
  result<void> find(const micro_batch& batch);
  // The mask of draw `i` of that batch; empty: all tokens are allowed.
  token_mask of(std::size_t i) const noexcept { return masks_[i]; }

private:
  std::shared_ptr<grammar::masker> from_;
  std::vector<grammar::token_bits> masks_; // [draws]
};

} // namespace baton::engine
