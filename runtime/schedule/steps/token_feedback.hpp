// Stage 0's side of the run-ahead: tokens that the last stage drew recently, and the micro-batches
// that wait for them. Pure.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace baton::schedule {

class token_feedback {
public:
  // Batches whose draws are kept: far more than are in flight, so that requested ones are present.
  static constexpr std::size_t batches_kept = 256;

  // A batch of the open epoch, in the scheduler's order.
  void push(micro_batch batch) {
    awaited_.insert(batch.batch);
    waiting_.push_back(std::move(batch));
  }
  // Records a batch's draws. A failed batch matches any token: the scheduler discards the results
  // that depend on it.
  void remember(const sampled& step);
  // The first waiting batch, if all of its tokens are known. Errors: invalid_value (it refers to a
  // draw that does not exist); the batch is returned with the error, to be answered.
  struct ready {
    micro_batch batch;
    result<void> filled;
  };
  std::optional<ready> pop();
  // The first waiting batch, if only tokens of `running` are missing; otherwise null. Valid until
  // the next call of any other function.
  const micro_batch* next_behind(batch_id running) const;
  // A new epoch has begun.
  void clear();

private:
  struct drawn {
    std::vector<token_id> tokens;
    bool has_failed = false;
  };
  result<void> fill(micro_batch& batch) const;

  std::deque<micro_batch> waiting_; // bounded by the scheduler's batches in flight
  std::map<batch_id, drawn> drawn_;
  // Pushed and not answered. A failure at a stage may arrive before the last stage's draws of an
  // earlier batch.
  std::set<batch_id> awaited_;
};

} // namespace baton::schedule
