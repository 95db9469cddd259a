// Stage 0's end of the run-ahead: what the last stage drew lately, and the micro-batches that wait
// for it. Pure.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace baton::schedule {

class token_feed {
public:
  // Batches whose draws are kept: far more than are in flight, so that what is asked for is there.
  static constexpr std::size_t batches_kept = 256;

  // A batch of the open epoch, in the order in which the scheduler sent them.
  void push(micro_batch batch) {
    awaited_.insert(batch.batch);
    waiting_.push_back(std::move(batch));
  }
  // What a batch drew. A failed one stands for whatever token: the scheduler discards what follows
  // from it.
  void remember(const sampled& step);
  // The first that waits, if all of its tokens are there by now. Errors: invalid_value (it asks for
  // what was never drawn); the batch comes with it, to be answered.
  struct ready {
    micro_batch batch;
    result<void> filled;
  };
  std::optional<ready> pop();
  // The first that waits, if `running` alone is to bring the tokens that it has not; null: there is
  // no such batch. Valid until the next call of any other function.
  const micro_batch* next_behind(batch_id running) const;
  // Another epoch has begun.
  void clear();

private:
  struct drawn {
    std::vector<token_id> tokens;
    bool has_failed = false;
  };
  result<void> fill(micro_batch& batch) const;

  std::deque<micro_batch> waiting_; // bounded by what the scheduler has in flight
  std::map<batch_id, drawn> drawn_;
  // Pushed and not answered. What a stage fails may be heard of before what the last one draws of
  // an earlier batch.
  std::set<batch_id> awaited_;
};

} // namespace baton::schedule
