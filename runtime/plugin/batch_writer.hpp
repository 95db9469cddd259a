// Writes batches in the ABI's format (abi.hpp).
#pragma once

#include "runtime/plugin/draw_writer.hpp"

namespace baton::plugin {

// The stage that receives the batches.
struct batch_reader {
  bool embeds = false, heads = false;
  bool draws_itself = true; // if the batch has draw parameters
};

class batch_writer {
public:
  // The returned lists are valid until the next call. Draws are passed on if each needs only a
  // token and steps that libraries support efficiently; otherwise the shard draws. Scored rows
  // count as draws. Requires: the batch is valid.
  const batch& write(const micro_batch& from, std::span<const float> activations,
                     const batch_reader& to);
  // Resets to the state before any write.
  void forget() noexcept { batch_ = {}; }

  // For the last batch: the rows of logits that belong to its draws, and to its scored rows.
  const std::vector<std::size_t>& draw_rows() const noexcept { return draw_rows_; }
  const std::vector<std::size_t>& score_rows() const noexcept { return score_rows_; }
  // Whether the last batch can feed all placeholder tokens of `next`: the engine draws its tokens,
  // and no draw of `next` depends on earlier tokens.
  bool can_feed(const micro_batch& next, const batch_reader& to) const;

private:
  void write_slices(const micro_batch& from, const batch_reader& to);

  batch batch_;
  std::vector<slice> slices_;
  std::vector<copy> copies_;
  std::vector<feed> feeds_;
  draw_writer draws_;
  std::vector<std::size_t> draw_rows_, score_rows_;
};

} // namespace baton::plugin
