// The logits of the rows of a step that draw, and what becomes of them: tokens drawn on the device,
// or logits for the shard, which draws by itself. Driven by stage.cpp on the last stage.
//
// Where ranks share the stage each has some columns of the logits. If the device sums up over the
// ranks by itself, each lays its own between zeros and the sum over the ranks is all of them, bit
// for bit (x + 0 is x), without the host; rank 0 draws. Else the shard gathers them.
#pragma once

#include "runtime/gpu/turn_memory.hpp"

#include <vector>

namespace baton::gpu {

class step_draws {
public:
  // Keeps references to all of them. `sums`: of the ranks; null: there are none, or by the host.
  // `draws`: of a step, as they are expected: memory for them is taken here, for more of them as
  // they come. Throws what the device throws.
  step_draws(device& on, const plugin::decoder& model, const plugin::settings& with,
             const plugin::host& shard, rank_sums* sums, std::uint32_t draws);

  // Memory for `draws` rows of logits, at least batch.draws, and how the batch's are drawn on the
  // device, before the step's work. Requires: the step that had the turn before has ended. Throws
  // what the device throws.
  void lay_out(const plugin::batch& batch, std::uint32_t draws, std::uint32_t turn);
  // [draws, decoder::logit_count] of this rank, to be written by the step's work.
  float* logits() const noexcept { return logits_.as<float>(); }
  // How often that memory has moved.
  std::uint64_t moves() const noexcept { return moves_; }

  // What the step that was laid out last draws, on the device; null: it draws nothing there.
  const std::int32_t* drawn() const noexcept {
    return by_turn_[turn_].are_here && with_.rank == 0 ? drawn_.as<std::int32_t>() : nullptr;
  }

  // Behind the step's work, on the device: what lay_out() was told to do with the logits. Throws
  // what the device throws, and refused(group_failed).
  void launch();
  // Behind that: asks for tokens or logits. Requires: the sums of the ranks have finished.
  void fetch();
  // Tokens or logits; nothing at ranks that do not draw. What it points to is valid until the turn
  // comes again. Requires: the step of that turn has ended. Throws: as launch().
  plugin::outcome take(std::uint32_t turn);

private:
  void reserve(std::uint32_t draws);
  void reserve_lists(std::size_t bytes);
  void upload_lists(const plugin::draw_lists& how);
  void draw();
  float* gathered(std::size_t draws);
  bool has_ranks() const noexcept { return with_.width > 1; }
  bool can_draw() const noexcept { return !has_ranks() || ranks_ != nullptr; }

  device& on_;
  const plugin::decoder& model_;
  const plugin::settings& with_;
  const plugin::host& shard_;
  rank_sums* ranks_;
  struct turn_draws { // of a step
    std::uint32_t count = 0;
    bool are_here = false; // on the device
    std::byte* fetched = nullptr;
  };
  std::uint32_t turn_ = 0; // of the step that was laid out last
  std::array<turn_draws, turns> by_turn_;
  buffer logits_;        // [draws, logits of this rank]
  buffer all_logits_;    // [draws, vocabulary], where ranks share them on the device
  std::size_t room_ = 0; // draws that these hold, and those below
  std::uint64_t moves_ = 0;
  buffer weights_, tokens_, sums_, buckets_, drawn_; // of draw_args
  turn_memory staged_, fetched_;                     // lists; tokens or [draws, vocabulary] logits
  buffer lists_;                                     // of draw_lists, one behind the other
  std::size_t lists_room_ = 0;                       // bytes
  draw_args lists_at_{};                             // where each begins in it
  std::vector<std::byte> host_lists_;
  // Where ranks share the logits and the shard gathers them: [draws, vocabulary], and of this rank.
  std::vector<float> host_logits_, own_logits_;
};

} // namespace baton::gpu
