// The group of ranks on one machine: its shared memory (group_memory.hpp), and this rank's
// collective in it.
#pragma once

#include "runtime/collective/group.hpp"
#include "runtime/collective/shared_collective.hpp"

namespace baton::collective {

class shared_group final : public group {
public:
  // `fd`: laid out by group_memory::create; may be closed. Errors: those of group_memory::map,
  // invalid_value (another width).
  static result<std::shared_ptr<shared_group>> join(int fd, std::uint32_t rank, std::uint32_t width,
                                                    shared_options options = {});

  result<void> enter(epoch_id epoch) override;
  bool is_broken() const noexcept override { return ranks_->is_broken(); }
  // For the engine of this rank.
  std::shared_ptr<collective> ranks() const noexcept { return ranks_; }

private:
  shared_group(group_memory memory, std::shared_ptr<shared_collective> ranks)
      : memory_(std::move(memory)), ranks_(std::move(ranks)) {}

  group_memory memory_;
  std::shared_ptr<shared_collective> ranks_;
};

} // namespace baton::collective
