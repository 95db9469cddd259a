// The ranks of a stage as threads of a test: group memory, and a collective for each rank in a
// common epoch.
#pragma once

#include "runtime/collective/shared_collective.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace baton::testing {

class shared_ranks {
public:
  explicit shared_ranks(std::uint32_t width,
                        std::chrono::milliseconds deadline = std::chrono::seconds(60))
      : fd_(::memfd_create("group", MFD_CLOEXEC)), memory_(make_memory(fd_, width)) {
    for (std::uint32_t rank = 0; rank < width; ++rank)
      ranks_.push_back(std::make_shared<collective::shared_collective>(
          rank, width, collective::shared_options{deadline}));
    enter_next_epoch();
  }
  shared_ranks(const shared_ranks&) = delete;
  shared_ranks& operator=(const shared_ranks&) = delete;
  ~shared_ranks() { ::close(fd_); }

  std::shared_ptr<collective::shared_collective> of(std::size_t rank) const { return ranks_[rank]; }

  void enter_next_epoch() {
    const auto opened = memory_.open_epoch({++epoch_});
    REQUIRE_MESSAGE(opened, opened.error().message);
    const auto area = memory_.area_of({epoch_});
    REQUIRE_MESSAGE(area, area.error().message);
    for (auto& rank : ranks_)
      REQUIRE(rank->enter(*area));
  }

private:
  static collective::group_memory make_memory(int fd, std::uint32_t width) {
    auto made = collective::group_memory::create(fd, width);
    REQUIRE_MESSAGE(made, made.error().message);
    return *std::move(made);
  }

  int fd_;
  collective::group_memory memory_;
  std::uint64_t epoch_ = 0;
  std::vector<std::shared_ptr<collective::shared_collective>> ranks_;
};

// Runs `run(rank)` for all ranks in parallel, rank 0 on the caller's thread.
inline void run_together(std::size_t ranks, const std::function<void(std::size_t)>& run) {
  std::vector<std::thread> others;
  for (std::size_t rank = 1; rank < ranks; ++rank)
    others.emplace_back(run, rank);
  run(0);
  for (auto& each : others)
    each.join();
}

} // namespace baton::testing
