// Membership of a rank in its group across epochs: for the driver of an engine. The engine itself
// uses the collective.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

namespace baton::collective {

class group {
public:
  virtual ~group() = default;

  // Joins `epoch` as this rank; does not wait for the others. Rank 0 begins the epoch first, which
  // ends all earlier ones. Errors: stale_epoch (rank 0 has begun another epoch, or it is not above
  // all earlier ones), conflict (the rank is taken), io_failed, does_not_fit (no memory).
  virtual result<void> enter(epoch_id epoch) = 0;

  // Whether a call of this epoch has failed, or none was entered. The ranks may be out of step, so
  // only a new epoch helps.
  virtual bool is_broken() const noexcept = 0;
};

} // namespace baton::collective
