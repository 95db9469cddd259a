// Activations that stage 0 sent recently. If a later stage is lost, the next epoch begins with the
// same rows: they are sent again, and not recomputed. Pure.
//
// A row is the same if its sequence, position, token and blocks are: a log only grows, so all
// earlier rows are the same, too. Excluded are draft tokens, whose predecessors may still change,
// and rows whose keys and values were overwritten. With recurrent layers the step must also be the
// same as a whole, with the same slots. Only then its state was written, and is there.
#pragma once

#include "schema/messages.hpp"

#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace baton::schedule {

class activation_cache {
public:
  // `batches_max`: the maximum number in flight. Requires: block_positions > 0.
  activation_cache(std::size_t batches_max, std::uint32_t block_positions);

  // Rows of the previous epoch may be requested until another batch runs.
  void begin_epoch();
  // The activations of the rows of `wanted`, in order, if all are present; valid until the next
  // call of any other function. Empty: run the batch, and do not ask again in this epoch.
  std::optional<std::vector<std::span<const std::byte>>> find(const micro_batch& wanted);
  // `sent` goes to the next stage with its activations.
  void remember(const micro_batch& sent);
  // A step has failed: later steps may lack the keys and values that it would have written.
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
  std::deque<batch> before_; // of the previous epoch
  std::deque<batch> now_;
  bool is_spoilt_ = false; // in this epoch
};

} // namespace baton::schedule
