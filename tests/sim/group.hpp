// Where the ranks of a simulated stage meet. A rank 0 that waits for the others lets the rest of
// the world go on; what a step gives is compared between the ranks. The rules are those of
// runtime/collective: an epoch that is not the group's is stale, a rank that is gone is noticed at
// once and one that does not come after the deadline, and a failure stays until the next epoch.
#pragma once

#include "runtime/collective/group.hpp"
#include "runtime/engine/engine.hpp"
#include "tests/sim/promises.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>

namespace baton::sim {

class world;

// Shared by the ranks of a stage, through all of their lives.
struct stage_group {
  epoch_id epoch; // that rank 0 has begun
  struct meeting {
    batch_id batch;
    std::map<std::uint32_t, std::uint64_t> came; // by rank: what its step gave
    bool is_failed = false;                      // somebody came for another step
  };
  std::optional<meeting> now; // while rank 0 is in a step
};

class sim_group final : public collective::group {
public:
  struct place {
    stage_index stage = 0;
    std::uint32_t rank = 0;
    std::uint32_t width = 1;
  };
  // `is_gone`: whether the process of that rank has ended.
  sim_group(world& w, promises& p, std::shared_ptr<stage_group> shared, const place& where,
            std::function<bool(std::uint32_t)> is_gone);

  result<void> enter(epoch_id epoch) override;
  bool is_broken() const noexcept override { return is_broken_; }

  // Around a step of this rank's engine. Errors of meet: as of collective::agree.
  result<void> meet(batch_id batch);
  void compare(const result<engine::step_output>& out);
  // The ranks have lost one another by another way.
  void give_up() { is_broken_ = true; }

private:
  result<void> wait_for_others();

  world& world_;
  promises& promises_;
  std::shared_ptr<stage_group> shared_;
  place where_;
  std::function<bool(std::uint32_t)> is_gone_;
  epoch_id entered_;
  bool is_broken_ = true;
};

} // namespace baton::sim
