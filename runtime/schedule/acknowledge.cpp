// Handling of finished, failed and lost steps. A step is acknowledged by its result under the
// current epoch, or under the last one while none is open. Only then do sequences grow, tokens
// enter the log and blocks become free.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace baton::schedule {

namespace {

// Whether every row of the scored slices has a score, and no other slice has any. Requires: one
// result per pooled slice.
template <class Parts>
bool has_scores(const sampled& step, const Parts& parts) {
  auto next = step.pooled.begin();
  for (const auto& p : parts)
    if (p.pools && next++->scores.size() != (p.scores ? p.rows : 0))
      return false;
  return true;
}

} // namespace

// Pooling results must be finite numbers, tokens must be in the vocabulary.
bool scheduler::is_whole(const sampled& step, std::size_t draws, std::size_t pools) const {
  const auto is_known = [this](const sample& s) {
    return s.token >= 0 && static_cast<std::uint32_t>(s.token) < config_.vocabulary_size;
  };
  const auto is_finite = [&](const pooled& p) {
    return std::all_of(p.values.begin(), p.values.end(),
                       [](float v) { return std::isfinite(v); }) &&
           std::all_of(p.scores.begin(), p.scores.end(), is_known);
  };
  return step.samples.size() == draws && step.pooled.size() == pools &&
         std::all_of(step.samples.begin(), step.samples.end(), is_known) &&
         std::all_of(step.pooled.begin(), step.pooled.end(), is_finite);
}

void scheduler::on_sampled(const sampled& step) {
  if (!epoch_ || step.epoch != *epoch_) {
    if (!land_late(step))
      ++counters_.stale_results;
    return;
  }
  const auto it = flights_.find(step.batch);
  if (it == flights_.end()) {
    ++counters_.duplicate_results;
    return;
  }
  const flight landed = std::move(it->second);
  const auto& [parts, copied] = landed;
  flights_.erase(it);
  for (const service_order& who : copied)
    if (sequence* s = find(who))
      --s->copying;
  has_isolated_in_flight_ = false;
  std::size_t draws = 0, pools = 0;
  for (const part& p : parts) {
    draws += p.draws();
    pools += p.pools ? 1 : 0;
  }
  std::optional<error> failure = step.failure;
  if (!failure && !(is_whole(step, draws, pools) && has_scores(step, parts)))
    failure = fail(errc::internal,
                   "a step drew {} tokens instead of {}, or unknown ones, or pooled {} prompts "
                   "instead of {}, or to no numbers or scores",
                   step.samples.size(), draws, step.pooled.size(), pools);
  record_step(step, parts, failure.has_value());
  if (failure) {
    fail_step(step.batch, parts, *failure);
    for (const service_order& who : copied)
      if (sequence* s = find(who))
        lose_copies(*s);
  } else {
    std::span<const sample> drawn = step.samples;
    output_.tokens.reserve(output_.tokens.size() + parts.size());
    auto next_pooled = step.pooled.begin();
    for (const part& p : parts) {
      if (p.pools)
        accept(step.batch, p, *next_pooled++);
      else
        accept(step.batch, p, drawn.first(p.draws()));
      drawn = drawn.subspan(p.draws());
    }
  }
  sweep();
}

template <class Parts>
void scheduler::record_step(const sampled& step, const Parts& parts, bool has_failed) {
  ++totals_.steps;
  std::uint64_t rows = 0;
  bool is_prefill = false;
  for (const auto& p : parts) {
    rows += p.rows;
    is_prefill |= p.is_prefill;
  }
  if (has_failed) {
    ++(is_prefill ? totals_.prefills_failed : totals_.decodes_failed);
  } else {
    totals_.step_rows.add(rows, step_rows_borders);
    (is_prefill ? totals_.prefill_micros : totals_.decode_micros)
        .add(std::accumulate(step.stage_micros.begin(), step.stage_micros.end(), std::uint64_t{0}),
             step_micros_borders);
  }
  auto& busy = totals_.stage_busy_micros;
  busy.resize(
      std::max(busy.size(), std::min<std::size_t>(step.stage_micros.size(), shape_.stages)));
  for (std::size_t i = 0; i < std::min(busy.size(), step.stage_micros.size()); ++i)
    busy[i] += step.stage_micros[i];
}

// The last stage completed this step after the epoch closed, so every stage had run it. Its result
// equals that of a redone step. If the KV is lost, it is recomputed from a log that includes these
// tokens. Draft tokens are not verified any more. False if there is no such step.
bool scheduler::land_late(const sampled& step) {
  const auto it = step.epoch == last_epoch_ ? late_.find(step.batch) : late_.end();
  if (it == late_.end())
    return false;
  const auto parts = std::move(it->second);
  late_.erase(it);
  std::size_t draws = 0, pools = 0;
  for (const late_part& p : parts) {
    draws += p.draws;
    pools += p.pools ? 1 : 0;
  }
  if (step.failure || !is_whole(step, draws, pools) || !has_scores(step, parts))
    return false; // redone, which isolates the offending request
  record_step(step, parts, /*has_failed=*/false);
  std::span<const sample> drawn = step.samples;
  auto next_pooled = step.pooled.begin();
  for (const late_part& p : parts) {
    clear_of_suspicion(p);
    const auto* result = p.pools ? &*next_pooled++ : nullptr;
    sequence* s = find(p.who);
    if (s && s->state == sequence_state::running && p.position == s->computed) {
      acknowledge(*s, p.rows);
      if (p.draws > 0)
        take_token(*s, drawn.front());
      if (result)
        take_pooled(*s, *result);
      settle(*s);
      update_lists(*s);
      lists_.came_back(*s, step.batch);
    }
    drawn = drawn.subspan(p.draws);
  }
  sweep();
  return true;
}

// Rows that have passed all stages are not suspect: no shard has died of them.
void scheduler::clear_of_suspicion(const late_part& p) {
  const auto it = suspects_.find(p.who);
  if (it == suspects_.end())
    return;
  it->second.from = std::max(it->second.from, p.position + p.rows);
  if (it->second.from >= it->second.until)
    suspects_.erase(it);
}

// The sequence is no longer in flight with this batch. Rows out of order are void: whatever is not
// acknowledged is redone.
sequence& scheduler::land(batch_id batch, const part& p) {
  sequence& s = *p.of;
  ENSURE(s.in_flight > 0, "a step of ticket {} came back that did not leave", s.id.ticket.value);
  --s.in_flight;
  s.drawing -= p.samples ? 1 : 0;
  if (p.position != s.computed || s.copying > 0)
    s.is_void = true;
  lists_.came_back(s, batch);
  return s;
}

// Draws behind draft tokens count as long as each draft token equals the token drawn before it.
void scheduler::accept(batch_id batch, const part& p, std::span<const sample> drawn) {
  sequence* s = &land(batch, p);
  if (s->state != sequence_state::ended && !s->is_void) {
    const auto drafts = std::exchange(s->drafts, {});
    acknowledge(*s, p.rows - p.drafts);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (i > 0) {
        if (s->state == sequence_state::ended || drawn[i - 1].token != drafts[i - 1])
          break;
        acknowledge(*s, 1);
        ++totals_.spec_decode_accepted_tokens;
      }
      take_token(*s, drawn[i]);
    }
  }
  settle(*s);
  update_lists(*s);
}

void scheduler::accept(batch_id batch, const part& p, const pooled& result) {
  sequence& s = land(batch, p);
  if (s.state != sequence_state::ended && !s.is_void) {
    acknowledge(s, p.rows);
    take_pooled(s, result);
  }
  settle(s);
  update_lists(s);
}

// Marks `rows` more rows as valid.
void scheduler::acknowledge(sequence& s, std::size_t rows) {
  s.computed += rows;
  if (config_.enable_prefix_caching && s.computed - s.published >= shape_.block_positions) {
    blocks_.publish(s.id, s.terms.cache_salt, s.ids, s.computed);
    s.published = s.computed - s.computed % shape_.block_positions;
  }
  s.clear_if_computed();
}

void scheduler::take_token(sequence& s, const sample& drawn) {
  tokens m = message_of(s);
  m.samples.push_back(drawn);
  s.append(drawn.token);
  ++totals_.output_tokens;
  const std::uint32_t total = s.output_count();
  if (s.is_end(drawn.token, total - 1, config_.eos_ids))
    return end_choice(s, std::move(m), finish::stop, std::nullopt, total);
  if (total >= s.terms.stop.max_tokens || !fits(s.ids.size()))
    return end_choice(s, std::move(m), finish::length, std::nullopt, total);
  output_.tokens.push_back(std::move(m));
}

// The result of the rows up to the last acknowledged one: the embedding, if that is the last row.
void scheduler::take_pooled(sequence& s, const pooled& result) {
  if (!s.terms.wants_embedding)
    return take_scores(s, result);
  s.pooled = result.values;
  if (s.computed < s.ids.size())
    return;
  tokens m = message_of(s);
  m.embedding = result.values;
  end_choice(s, std::move(m), finish::stop, std::nullopt, 0);
}

// Scores are sent with the first token; if no token is wanted, at once.
void scheduler::take_scores(sequence& s, const pooled& result) {
  s.scores.insert(s.scores.end(), result.scores.begin(), result.scores.end());
  if (s.terms.stop.max_tokens == 0 && !s.wants_scores())
    end_choice(s, message_of(s), finish::length, std::nullopt, 0);
}

// Whether a sequence of so many ids could draw another one, with all blocks to itself.
bool scheduler::fits(std::size_t ids) const {
  return ids < config_.max_model_len && blocks_.needed(ids) <= blocks_.total();
}

// Ends the offending sequence if it is known; otherwise each of the batch is retried alone, once.
// After a memory shortage (does_not_fit) a sequence that was alone by chance is retried once more,
// because the shortage may have been temporary. A failure may arrive before that of an earlier step
// that it depends on: then it proves nothing, and the step is redone.
void scheduler::fail_step(batch_id batch, const std::vector<part>& parts, const error& why) {
  for (const part& p : parts) {
    const bool is_in_order = p.position == p.of->computed && p.of->copying == 0;
    sequence& s = land(batch, p);
    if (is_in_order && s.state != sequence_state::ended) {
      if (parts.size() == 1 && (s.is_isolated || why.code != errc::does_not_fit)) {
        fail_choice(s, why);
      } else {
        s.is_void = s.is_isolated = true;
        s.suspect_from = p.position;
        s.suspect_until = p.position + p.rows;
      }
    }
    settle(s);
    update_lists(s);
  }
}

// A stage may not have made the copies: only the log of the sequence remains valid.
void scheduler::lose_copies(sequence& s) {
  if (s.state == sequence_state::ended)
    return;
  blocks_.forget_swapped(s.id);
  s.swapped = 0;
  s.is_leaving = false;
  s.is_void = true;
  s.state = sequence_state::waiting;
  settle(s);
  update_lists(s);
}

// Completes actions deferred until no step in flight uses the sequence's blocks.
void scheduler::settle(sequence& s) {
  if (s.in_flight > 0)
    return;
  if (s.state != sequence_state::running) {
    if (s.state == sequence_state::ended)
      blocks_.forget_swapped(s.id);
    else if (std::exchange(s.is_leaving, false))
      swap_out(s);
    blocks_.release(s.id);
    s.computed = s.published = s.cached = 0;
    s.pooled.clear();
    if (s.wants_scores())
      s.scores.clear();
  }
  s.issued = s.computed;
  s.drawing = 0;
  s.drafts.clear();
  s.is_void = false;
}

// Deletes ended sequences that are no longer in flight.
void scheduler::sweep() {
  for (const service_order& who : lists_.take_finished())
    sequences_.erase(who);
}

void scheduler::open_epoch(epoch_id epoch, const pipeline_shape& shape, loss last, kv_fate kv) {
  ENSURE(!epoch_ && epoch > last_epoch_, "epoch {} opens after {}", epoch.value, last_epoch_.value);
  ENSURE(shape.stages > 0, "a pipeline without stages");
  epoch_ = last_epoch_ = epoch;
  const bool is_same_memory =
      shape_.blocks == shape.blocks && shape_.block_positions == shape.block_positions;
  shape_ = shape;
  if (kv == kv_fate::lost || !is_same_memory)
    forget_kv();
  blocks_.offer_swap(shape.swap_blocks);
  closed_at_.reset();
  late_.clear();
  ++totals_.epochs;
  if (last == loss::shard)
    judge_suspects(kv);
  suspects_.clear();
  refuse_embeddings();
  for (auto& [who, s] : sequences_) {
    if (s.state == sequence_state::ended || fits(s.ids.size()))
      continue;
    const error why = fail_param(errc::context_length_exceeded, "prompt",
                                 "the prompt of {} tokens needs {} KV blocks, the pipeline has {}",
                                 s.prompt_count, blocks_.needed(s.prompt_count), blocks_.total());
    if (!tickets_.at(s.id.ticket).has_begun)
      refuse(s.id.ticket, why); // its other choices have the same prompt
    else if (s.output_count() > 0)
      end_choice(s, message_of(s), finish::length, std::nullopt, s.output_count());
    else
      fail_choice(s, why);
  }
  sweep();
}

// Refuses embeddings admitted before the stages were known.
void scheduler::refuse_embeddings() {
  for (auto& [who, s] : sequences_)
    if (s.terms.wants_embedding && s.state != sequence_state::ended && !shape_.pools)
      fail_choice(s, no_embeddings());
}

void scheduler::close_epoch(time_point since, std::string why) {
  if (!epoch_)
    return;
  epoch_.reset();
  closed_at_ = since;
  why_closed_ = std::move(why);
  has_isolated_in_flight_ = false;
  for (const auto& [batch, f] : flights_) {
    auto& late = late_[batch];
    for (const part& p : f.parts) {
      suspects_.try_emplace(p.of->service_order(), range{p.position, 0}).first->second.until =
          p.position + p.rows;
      late.push_back({p.of->service_order(), p.position, p.rows - p.drafts, p.draws(), p.pools,
                      p.scores, p.is_prefill});
    }
    if (!f.copied.empty()) // its copies are lost
      late_.erase(batch);
  }
  flights_.clear();
  copies_.clear();
  copied_.clear();
  for (auto& [who, s] : sequences_) {
    s.in_flight = 0;
    s.is_leaving = false;
    if (std::exchange(s.copying, 0) > 0 || s.swapped > 0)
      lose_copies(s); // swap space ends with its process
    settle(s);        // reset to the acknowledged rows
    update_lists(s);
  }
  sweep();
}

void scheduler::forget_kv() {
  for (auto& [who, s] : sequences_) {
    if (s.state == sequence_state::running)
      s.state = sequence_state::waiting;
    settle(s);
    update_lists(s);
  }
  blocks_ = block_manager(shape_.blocks, shape_.block_positions, blocks_.last_stamp());
}

// A shard that is killed from outside leaves its KV; one that ends itself does not. In the latter
// case a request is likely to blame, so every row in flight is tried alone. This costs each request
// a step, so after kills it is done only if the same rows were in flight before.
void scheduler::judge_suspects(kv_fate kv) {
  const std::uint32_t deaths_max = kv == kv_fate::lost ? crashes_max : kills_max;
  for (const auto& [who, span] : suspects_) {
    sequence* suspect = find(who);
    if (!suspect || suspect->state == sequence_state::ended)
      continue;
    sequence& s = *suspect;
    const auto [from, until] = span;
    const bool overlaps = s.deaths > 0 && from < s.suspect_until && s.suspect_from < until;
    s.suspect_from = overlaps ? std::max(s.suspect_from, from) : from;
    s.suspect_until = overlaps ? std::min(s.suspect_until, until) : until;
    s.deaths = overlaps ? s.deaths + 1 : 1;
    s.is_isolated |= s.deaths >= deaths_max - 1;
    update_lists(s);
    if (suspects_.size() > 1 || s.deaths < deaths_max)
      continue;
    ++counters_.quarantined;
    const error why =
        fail(errc::quarantined, "a step of this request ended a shard {} times", s.deaths);
    fail_choice(s, why);
  }
}

} // namespace baton::schedule
