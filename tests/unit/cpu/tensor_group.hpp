// The ranks of one stage as threads of the test: engines with a slice each, over a group in shared
// memory. Driven like a single engine.
#pragma once

#include "runtime/collective/shared_collective.hpp"
#include "runtime/cpu/engine_cpu.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace baton::testing {

class tensor_group {
public:
  tensor_group(const model::model_file& file, const model::description& model,
               const model::layer_range& range, cpu::config settings, std::uint32_t width,
               const std::vector<double>& speeds = {},
               std::chrono::milliseconds deadline = std::chrono::seconds(60))
      : fd_(::memfd_create("group", MFD_CLOEXEC)), memory_(make_memory(fd_, width)) {
    const auto blocks = model::slice_blocks_of(model, file);
    REQUIRE_MESSAGE(blocks, blocks.error().message);
    auto slices = model::split(model, width, speeds, *blocks);
    REQUIRE_MESSAGE(slices, slices.error().message);
    settings.slices = *std::move(slices);
    for (settings.rank = 0; settings.rank < width; ++settings.rank) {
      groups_.push_back(std::make_shared<collective::shared_collective>(
          settings.rank, width, collective::shared_options{deadline}));
      auto engine = cpu::engine_cpu::load(file, model, range, settings, nullptr, groups_.back());
      REQUIRE_MESSAGE(engine, engine.error().message);
      engines_.push_back(*std::move(engine));
    }
    enter_next_epoch();
  }
  tensor_group(const model::model_file& file, const model::description& model,
               const cpu::config& settings, std::uint32_t width,
               const std::vector<double>& speeds = {})
      : tensor_group(file, model, model::whole(model), settings, width, speeds) {}
  ~tensor_group() { ::close(fd_); }

  void enter_next_epoch() {
    const auto opened = memory_.open_epoch({++epoch_});
    REQUIRE_MESSAGE(opened, opened.error().message);
    const auto area = memory_.area_of({epoch_});
    REQUIRE_MESSAGE(area, area.error().message);
    for (auto& group : groups_)
      REQUIRE(group->enter(*area));
  }

  // The batch on the ranks of `taking_part`, all by default; what each of them answers.
  using outcomes = std::vector<result<baton::engine::step_output>>;
  outcomes run_ranks(const micro_batch& batch, std::span<const float> activations = {},
                     std::size_t taking_part = SIZE_MAX) {
    outcomes out(std::min(taking_part, engines_.size()), error{});
    std::vector<std::thread> others;
    for (std::size_t rank = 1; rank < out.size(); ++rank)
      others.emplace_back([&, rank] { out[rank] = engines_[rank]->run(batch, activations); });
    out[0] = engines_[0]->run(batch, activations);
    for (auto& each : others)
      each.join();
    return out;
  }

  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) {
    auto all = run_ranks(batch, activations);
    for (const auto& each : all)
      REQUIRE_MESSAGE(each, each.error().message);
    return std::move(all.front());
  }
  std::span<const float> logits(std::size_t index) const { return engines_[0]->logits(index); }
  const baton::engine::capacity& limits(std::size_t rank) const { return engines_[rank]->limits(); }

private:
  static collective::group_memory make_memory(int fd, std::uint32_t width) {
    auto made = collective::group_memory::create(fd, width);
    REQUIRE_MESSAGE(made, made.error().message);
    return *std::move(made);
  }

  int fd_;
  collective::group_memory memory_;
  std::uint64_t epoch_ = 0;
  std::vector<std::shared_ptr<collective::shared_collective>> groups_;
  std::vector<std::unique_ptr<cpu::engine_cpu>> engines_;
};

} // namespace baton::testing
