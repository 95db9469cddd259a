// What stage 0 has sent on lately. Where a stage behind it is lost, the next epoch begins with the
// same rows: they are sent again, and not computed. Pure.
//
// A row is the same if its sequence, position, token and blocks are: a log only grows, so all
// before it is the same, too. Left out are guesses, before which something else may come to stand,
// and rows whose keys and values were overwritten since.
#pragma once

#include "schema/messages.hpp"

#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace baton::schedule {

class sent_rows {
public:
  // `batches_max`: as many as may be on their way at the same time. Requires: block_positions > 0.
  sent_rows(std::size_t batches_max, std::uint32_t block_positions);

  // What was sent in the epoch before may be asked for, until something else is run.
  void begin_epoch();
  // The activations of the rows of `wanted`, in order, if all are there; they stay until the next
  // call of any other function. Nothing: run it, and ask no more in this epoch.
  std::optional<std::vector<std::span<const std::byte>>> find(const micro_batch& wanted);
  // `sent` goes to the next stage with its activations.
  void remember(const micro_batch& sent);
  // A step has failed: what was run after it may lack what that one would have written.
  void spoil();

private:
  struct batch {
    std::vector<slice> slices;
    std::vector<token_id> tokens;
    payload activations; // [rows, hidden]
  };
  std::optional<std::span<const std::byte>> find(const slice& wanted,
                                                 std::span<const token_id> tokens) const;
  std::span<const block_index> written_by(const slice& s) const;
  void forget_overwritten();

  std::size_t batches_max_;
  std::uint32_t block_positions_;
  std::deque<batch> before_; // of the last epoch
  std::deque<batch> now_;
  bool is_spoilt_ = false; // in this epoch
};

} // namespace baton::schedule
