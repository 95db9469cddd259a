// The logits of the drawing rows of a step, and their use: tokens drawn on the device, or logits
// for the shard, which then draws. Used by stage.cpp on the last stage.
//
// If ranks share the stage, each has some columns of the logits. If the device can sum over the
// ranks, each rank pads its own with zeros. The sum is bit-exact (x + 0 is x), needs no host, and
// rank 0 draws. Otherwise the shard gathers the logits.
#pragma once

#include "runtime/gpu/stage/double_buffer.hpp"

#include <vector>

namespace baton::gpu {

class step_draws {
public:
  // Keeps references to all arguments. `sums`: of the ranks; null: none, or summed by the host.
  // `draws`: the expected draws per step, whose memory is allocated here; more is allocated on
  // demand. Throws what the device throws.
  step_draws(device& on, const plugin::decoder& model, const plugin::settings& with,
             const plugin::host& shard, rank_sums* sums, std::uint32_t draws);

  // Provides memory for `draws` rows of logits, at least batch.draws, and uploads the draw
  // parameters, before the step's work. Requires: the previous step with this buffer has ended.
  // Throws what the device throws.
  void lay_out(const plugin::batch& batch, std::uint32_t draws, std::uint32_t buffer_index);
  // [draws, decoder::logit_count] of this rank, written by the step's work.
  float* logits() const noexcept { return logits_.as<float>(); }
  // How often that memory has moved.
  std::uint64_t moves() const noexcept { return moves_; }

  // The tokens of the last step laid out, on the device; null: that step does not draw there.
  const std::int32_t* drawn() const noexcept {
    return by_buffer_[buffer_index_].are_here && with_.rank == 0 ? drawn_.as<std::int32_t>()
                                                                 : nullptr;
  }

  // After the step's work, on the device: processes the logits as lay_out() was given. Throws what
  // the device throws, and refused(group_failed).
  void launch();
  // After launch(): requests tokens or logits. Requires: the sums of the ranks have finished.
  void fetch();
  // Tokens or logits; empty at ranks that do not draw. Valid until the buffer is used again.
  // Requires: the step with this buffer has ended. Throws: as launch().
  plugin::outcome take(std::uint32_t buffer_index);

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
  struct buffered_draws { // per step
    std::uint32_t count = 0;
    bool are_here = false; // drawn on the device
    std::byte* fetched = nullptr;
  };
  std::uint32_t buffer_index_ = 0; // of the last step laid out
  std::array<buffered_draws, buffer_count> by_buffer_;
  buffer logits_;        // [draws, logits of this rank]
  buffer all_logits_;    // [draws, vocabulary], if ranks share them on the device
  std::size_t room_ = 0; // capacity of these and of those below, in draws
  std::uint64_t moves_ = 0;
  buffer weights_, tokens_, sums_, buckets_, drawn_; // of draw_args
  double_buffer staged_, fetched_;                   // lists; tokens or [draws, vocabulary] logits
  buffer lists_;                                     // of draw_lists, concatenated
  std::size_t lists_room_ = 0;                       // bytes
  draw_args lists_at_{};                             // the start of each in `lists_`
  std::vector<std::byte> host_lists_;
  // If the shard gathers the logits of the ranks: [draws, vocabulary], and this rank's part.
  std::vector<float> host_logits_, own_logits_;
};

} // namespace baton::gpu
