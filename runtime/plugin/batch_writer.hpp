// Batches in the words of the boundary (abi.hpp).
#pragma once

#include "runtime/plugin/draw_writer.hpp"

namespace baton::plugin {

// Of whose stage they are.
struct batch_reader {
  bool embeds = false, heads = false;
  bool draws_itself = true; // where it is told how
};

class batch_writer {
public:
  // The batch's lists live until the next call. Its draws are told where all of them are of tokens
  // alone, by steps that libraries know and are quick with; else the shard draws. Scored rows are
  // draws as well. Requires: the batch is valid.
  const batch& write(const micro_batch& from, std::span<const float> activations,
                     const batch_reader& to);
  // Nothing has been written.
  void forget() noexcept { batch_ = {}; }

  // Of the last one: which rows of logits its draws are of, and its scored rows, one behind the
  // other.
  const std::vector<std::size_t>& draw_rows() const noexcept { return draw_rows_; }
  const std::vector<std::size_t>& score_rows() const noexcept { return score_rows_; }
  // Whether all tokens that are to come to `next` may be fed to it from the last batch: the engine
  // draws there, and no draw of `next` hangs on the tokens before it.
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
