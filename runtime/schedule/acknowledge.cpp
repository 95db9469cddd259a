// What a finished, failed or lost step means. A step is acknowledged by its result under the
// current epoch, or under the last one while there is none; only then do lengths grow, tokens enter
// the log and blocks go back.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace baton::schedule {

namespace {

// A score for every row of the slices that are scored, none for others. Requires: one for each.
template <class Parts>
bool has_scores(const sampled& step, const Parts& parts) {
  auto next = step.pooled.begin();
  for (const auto& p : parts)
    if (p.pools && next++->scores.size() != (p.scores ? p.rows : 0))
      return false;
  return true;
}

} // namespace

// What came back of pools is finite: nobody has words for another embedding.
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
  for (const turn& who : copied)
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
  add_up(step, parts, failure.has_value());
  if (failure) {
    fail_step(step.batch, parts, *failure);
    for (const turn& who : copied)
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
void scheduler::add_up(const sampled& step, const Parts& parts, bool has_failed) {
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

// The last stage was at it when the epoch closed: every stage before it has done it, and its result
// is the one that a redone step would have. Where the KV is lost with a shard, it is computed again
// from a log that has these tokens. Guesses are not judged any more. False if it is not such a
// step.
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
    return false; // done again, which tells who is to blame
  add_up(step, parts, /*has_failed=*/false);
  std::span<const sample> drawn = step.samples;
  auto next_pooled = step.pooled.begin();
  for (const late_part& p : parts) {
    clear_of_suspicion(p);
    const auto* came_to = p.pools ? &*next_pooled++ : nullptr;
    sequence* s = find(p.who);
    if (s && s->state == sequence_state::running && p.position == s->computed) {
      acknowledge(*s, p.rows);
      if (p.draws > 0)
        take_token(*s, drawn.front());
      if (came_to)
        take_pooled(*s, *came_to);
      settle(*s);
      file(*s);
      lists_.came_back(*s, step.batch);
    }
    drawn = drawn.subspan(p.draws);
  }
  sweep();
  return true;
}

// No shard has died of rows that have passed all of them.
void scheduler::clear_of_suspicion(const late_part& p) {
  const auto it = suspects_.find(p.who);
  if (it == suspects_.end())
    return;
  it->second.from = std::max(it->second.from, p.position + p.rows);
  if (it->second.from >= it->second.until)
    suspects_.erase(it);
}

// It is no longer in flight. What came out of order is void: what is not acknowledged will be done
// again.
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

// The draws of guesses count as far as each guess was what is drawn before it.
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
  file(*s);
}

void scheduler::accept(batch_id batch, const part& p, const pooled& came_to) {
  sequence& s = land(batch, p);
  if (s.state != sequence_state::ended && !s.is_void) {
    acknowledge(s, p.rows);
    take_pooled(s, came_to);
  }
  settle(s);
  file(s);
}

// So many more rows are valid.
void scheduler::acknowledge(sequence& s, std::size_t rows) {
  s.computed += rows;
  if (config_.enable_prefix_caching && s.computed - s.published >= shape_.block_positions) {
    blocks_.publish(s.id, s.cache_salt, s.ids, s.computed);
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
  if (total >= s.stop.tokens_max || !fits(s.ids.size()))
    return end_choice(s, std::move(m), finish::length, std::nullopt, total);
  output_.tokens.push_back(std::move(m));
}

// Of the rows up to the last acknowledged one: the embedding, if that is the prompt's last.
void scheduler::take_pooled(sequence& s, const pooled& came_to) {
  if (!s.embeds)
    return take_scores(s, came_to);
  s.pooled = came_to.values;
  if (s.computed < s.ids.size())
    return;
  tokens m = message_of(s);
  m.embedding = came_to.values;
  end_choice(s, std::move(m), finish::stop, std::nullopt, 0);
}

// They are told with the first token; where none is wanted, at once.
void scheduler::take_scores(sequence& s, const pooled& came_to) {
  s.scores.insert(s.scores.end(), came_to.scores.begin(), came_to.scores.end());
  if (s.stop.tokens_max == 0 && !s.wants_scores())
    end_choice(s, message_of(s), finish::length, std::nullopt, 0);
}

// Could a sequence of so many ids draw another one, with all blocks to itself?
bool scheduler::fits(std::size_t ids) const {
  return ids < config_.max_model_len && blocks_.needed(ids) <= blocks_.total();
}

// The offender ends, if it is known; else each of the batch is tried alone, once. Where memory was
// short (does_not_fit), that may have been the moment's fault: one that was alone by chance is
// tried once more as well. A failure may be heard of before that of the step which it ran ahead of:
// then it says nothing, and is done again.
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
    file(s);
  }
}

// A stage may not have made them: the sequence has nothing but its log.
void scheduler::lose_copies(sequence& s) {
  if (s.state == sequence_state::ended)
    return;
  blocks_.forget_swapped(s.id);
  s.swapped = 0;
  s.is_leaving = false;
  s.is_void = true;
  s.state = sequence_state::waiting;
  settle(s);
  file(s);
}

// What was put off until no step in flight uses the sequence's blocks.
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

// Forgets the ended ones that are no longer in flight.
void scheduler::sweep() {
  for (const turn& who : lists_.take_gone())
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

// Those that came before it was known which stages there are.
void scheduler::refuse_embeddings() {
  for (auto& [who, s] : sequences_)
    if (s.embeds && s.state != sequence_state::ended && !shape_.pools)
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
      suspects_.try_emplace(p.of->turn(), range{p.position, 0}).first->second.until =
          p.position + p.rows;
      late.push_back({p.of->turn(), p.position, p.rows - p.drafts, p.draws(), p.pools, p.scores,
                      p.is_prefill});
    }
    if (!f.copied.empty()) // whose copies are lost
      late_.erase(batch);
  }
  flights_.clear();
  copies_.clear();
  copied_.clear();
  for (auto& [who, s] : sequences_) {
    s.in_flight = 0;
    s.is_leaving = false;
    if (std::exchange(s.copying, 0) > 0 || s.swapped > 0)
      lose_copies(s); // and swap space goes with its process
    settle(s);        // back to what is acknowledged
    file(s);
  }
  sweep();
}

void scheduler::forget_kv() {
  for (auto& [who, s] : sequences_) {
    if (s.state == sequence_state::running)
      s.state = sequence_state::waiting;
    settle(s);
    file(s);
  }
  blocks_ = block_account(shape_.blocks, shape_.block_positions, blocks_.last_stamp());
}

// A shard that is killed from outside leaves its KV, one that ends itself does not: then a request
// may well be to blame, and every row that was in flight is tried alone. That costs each its step:
// for kills it is done only if the same rows were in flight before.
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
    file(s);
    if (suspects_.size() > 1 || s.deaths < deaths_max)
      continue;
    ++counters_.quarantined;
    const error why =
        fail(errc::quarantined, "a step of this request ended a shard {} times", s.deaths);
    fail_choice(s, why);
  }
}

} // namespace baton::schedule
