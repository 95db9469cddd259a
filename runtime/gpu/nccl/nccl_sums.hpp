// The ranks' sums with NCCL: one non-blocking communicator per epoch. Every wait checks for
// asynchronous errors and dead ranks and has a deadline. A failed or late communicator is aborted,
// and all further calls fail until the ranks enter another epoch.
//
//   none --enter--> beginning --all ranks joined--> ready --sum, finish--> ready
//    ^                  | late, failed                | late, failed
//    +---- abort -------+-----------------------------+    (enter(newer): abort, then beginning)
#pragma once

#include "runtime/gpu/device/rank_sums.hpp"
#include "runtime/gpu/nccl/nccl_calls.hpp"
#include "runtime/plugin/abi.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace baton::gpu {

struct nccl_options {
  // Timeouts: for all ranks to join, after they have loaded their weights; and for a step's work,
  // at most a prefill of rows_max rows.
  std::chrono::milliseconds begin_patience{10'000};
  std::chrono::milliseconds step_patience{10'000};
  // Tests use their own clock. `pause` is called between two checks.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<void()> pause = {}; // empty: yields
};

class nccl_sums final : public rank_sums {
public:
  // Rank 0 sends the communicator's id to the others with the all_reduce of `shard`, which also
  // detects dead ranks.
  nccl_sums(std::unique_ptr<nccl_calls> calls, const plugin::settings& with,
            const plugin::host& shard, nccl_options options = {});
  ~nccl_sums() override;

  void enter(std::uint64_t epoch) override;
  void sum(float* values, std::size_t count) override;
  void finish() override;

private:
  using time_point = std::chrono::steady_clock::time_point;
  nccl_id agree_on_id();
  // Waits until `state` is done; aborts and throws if it fails or is late.
  void await(const std::function<nccl_progress()>& state, time_point until, std::string_view what);
  [[noreturn]] void give_up(const std::string& why);
  void end() noexcept;

  std::unique_ptr<nccl_calls> calls_;
  std::uint32_t rank_, width_;
  plugin::host shard_;
  nccl_options options_;
  std::optional<std::uint64_t> epoch_;       // empty: no epoch has been entered
  nccl_communicator communicator_ = nullptr; // null: none, or aborted
  // An id that rank 0 created but did not use. It is reused, because NCCL keeps a thread and a
  // socket per id until all ranks have joined.
  std::optional<nccl_id> unused_id_;
};

} // namespace baton::gpu
