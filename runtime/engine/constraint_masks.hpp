// The masks of a step's draws, found before they are drawn. Called by every engine's last stage.
#pragma once

#include "runtime/engine/sampler.hpp"
#include "runtime/grammar/masker.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <vector>

namespace baton::engine {

class constraint_masks {
public:
  // Null: a draw under a constraint is an error.
  explicit constraint_masks(std::shared_ptr<grammar::masker> from = nullptr)
      : from_(std::move(from)) {}

  // For all draws of a batch. Errors: those of masker::find; unsupported_parameter (without a
  // vocabulary).
  result<void> find(const micro_batch& batch);
  // Of draw `i` of that batch; empty: any token may come.
  token_mask of(std::size_t i) const noexcept { return masks_[i]; }

private:
  std::shared_ptr<grammar::masker> from_;
  std::vector<grammar::token_bits> masks_; // [draws]
};

} // namespace baton::engine
