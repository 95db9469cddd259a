// The meeting point of the ranks of a simulated stage. While rank 0 waits for the others, the rest
// of the world runs; the results of a step are compared between ranks. The rules are those of
// runtime/collective. Another epoch is stale. A dead rank is detected at once, a missing one after
// the deadline, and a failure lasts until the next epoch.
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

// Shared by the ranks of a stage, across all of their incarnations.
struct stage_group {
  epoch_id epoch; // begun by rank 0
  struct meeting {
    batch_id batch;
    std::map<std::uint32_t, std::uint64_t> came; // by rank: the result of its step
    bool is_failed = false;                      // a rank came for another step
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
  // The ranks have lost one another by other means.
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
