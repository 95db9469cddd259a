#include "runtime/schedule/steps/token_feedback.hpp"

#include "runtime/schedule/sequences/sequence.hpp"

#include <algorithm>

namespace baton::schedule {
namespace {

constexpr token_id any_token = 0;

// The first draw of the slice with this row, if any. A pending row is the last of its slice.
draw* draw_behind(micro_batch& batch, std::uint32_t row) {
  std::size_t first = 0, draws = 0;
  for (const slice& s : batch.slices) {
    if (row < first + s.rows)
      return s.samples && draws < batch.draws.size() ? &batch.draws[draws] : nullptr;
    first += s.rows;
    draws += s.draws();
  }
  return nullptr;
}

} // namespace

void token_feedback::remember(const sampled& step) {
  awaited_.erase(step.batch);
  drawn& d = drawn_[step.batch];
  d.has_failed = step.failure.has_value();
  d.tokens.clear();
  for (const sample& s : step.samples)
    d.tokens.push_back(s.token);
  while (drawn_.size() > batches_kept)
    drawn_.erase(drawn_.begin());
}

std::optional<token_feedback::ready> token_feedback::pop() {
  if (waiting_.empty())
    return std::nullopt;
  const auto& feeds = waiting_.front().feeds;
  const batch_id own = waiting_.front().batch;
  if (std::any_of(feeds.begin(), feeds.end(),
                  [&](const feed& f) { return f.batch < own && awaited_.contains(f.batch); }))
    return std::nullopt;
  ready next{std::move(waiting_.front()), {}};
  waiting_.pop_front();
  next.filled = fill(next.batch);
  return next;
}

const micro_batch* token_feedback::next_behind(batch_id running) const {
  if (waiting_.empty())
    return nullptr;
  const auto& next = waiting_.front();
  const bool is_behind =
      !next.feeds.empty() && std::all_of(next.feeds.begin(), next.feeds.end(),
                                         [&](const feed& f) { return f.batch == running; });
  return is_behind ? &next : nullptr;
}

result<void> token_feedback::fill(micro_batch& batch) const {
  for (const feed& f : batch.feeds) {
    const auto it = drawn_.find(f.batch);
    if (f.row >= batch.tokens.size() || batch.tokens[f.row] != placeholder_token)
      return fail(errc::invalid_value, "batch {} has no token to come in row {}", batch.batch.value,
                  f.row);
    if (it == drawn_.end() || (!it->second.has_failed && f.draw >= it->second.tokens.size()))
      return fail(errc::invalid_value, "batch {} asks for draw {} of batch {}, which is not known",
                  batch.batch.value, f.draw, f.batch.value);
    const token_id token = it->second.has_failed ? any_token : it->second.tokens[f.draw];
    batch.tokens[f.row] = token;
    if (draw* d = draw_behind(batch, f.row))
      count_as_output(*d, token);
  }
  batch.feeds.clear();
  return {};
}

void token_feedback::clear() {
  waiting_.clear();
  drawn_.clear();
  awaited_.clear();
}

} // namespace baton::schedule
