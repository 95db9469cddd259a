// A rank's place in its group, from epoch to epoch: what whoever drives its engine needs of the
// group, beside the collective that the engine calls.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

namespace baton::collective {

class group {
public:
  virtual ~group() = default;

  // Takes this rank's place in `epoch`; does not wait for the others. Rank 0 begins the epoch, with
  // which the ones before are over: the other ranks come after it. Errors: stale_epoch (not the
  // epoch that rank 0 has begun, or not above all there were), conflict (somebody has this place),
  // io_failed, does_not_fit (no memory).
  virtual result<void> enter(epoch_id epoch) = 0;

  // Whether a call of this epoch has failed, or none was entered: the ranks may have lost step, and
  // only another epoch helps.
  virtual bool is_broken() const noexcept = 0;
};

} // namespace baton::collective
