// The ranks' sums by NCCL: one communicator an epoch, never one that blocks. Every wait looks for
// errors that came later and for ranks that are gone, and has a deadline; what fails or is late is
// aborted, and every further call fails until the ranks enter another epoch.
//
//   none --enter--> beginning --all ranks came--> ready --sum, finish--> ready
//    ^                  | late, failed              | late, failed
//    +---- abort -------+---------------------------+      (enter(newer): abort, then beginning)
#pragma once

#include "runtime/gpu/nccl_calls.hpp"
#include "runtime/gpu/rank_sums.hpp"
#include "runtime/plugin/abi.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace baton::gpu {

struct nccl_options {
  // For all ranks to come, which load no weights by then; and for the work of a step, the longest
  // of which is a prefill of rows_max rows.
  std::chrono::milliseconds begin_patience{10'000};
  std::chrono::milliseconds step_patience{10'000};
  // Tests have a clock of their own. `pause`: between two looks.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<void()> pause = {}; // none: yields
};

class nccl_sums final : public rank_sums {
public:
  // `shard`: by whose all_reduce rank 0 tells the others the communicator's id, and which knows
  // when one of them is gone.
  nccl_sums(std::unique_ptr<nccl_calls> calls, const plugin::settings& with,
            const plugin::host& shard, nccl_options options = {});
  ~nccl_sums() override;

  void enter(std::uint64_t epoch) override;
  void sum(float* values, std::size_t count) override;
  void finish() override;

private:
  using time_point = std::chrono::steady_clock::time_point;
  nccl_id agree_on_id();
  // Until `state` is done; aborts and throws where it fails or is late.
  void await(const std::function<nccl_progress()>& state, time_point until, std::string_view what);
  [[noreturn]] void give_up(const std::string& why);
  void end() noexcept;

  std::unique_ptr<nccl_calls> calls_;
  std::uint32_t rank_, width_;
  plugin::host shard_;
  nccl_options options_;
  std::optional<std::uint64_t> epoch_;       // none has been entered
  nccl_communicator communicator_ = nullptr; // null: none, or it was aborted
  // Made by rank 0 and not begun with: NCCL keeps a thread and a socket for each until all ranks
  // have come.
  std::optional<nccl_id> unused_id_;
};

} // namespace baton::gpu
