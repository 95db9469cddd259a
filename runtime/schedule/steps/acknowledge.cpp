#include "runtime/schedule/steps/acknowledge.hpp"

#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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
bool acknowledgement::is_whole(const sampled& step, std::size_t draws, std::size_t pools) const {
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

void acknowledgement::on_sampled(const sampled& step) {
  if (!pipeline_.epoch || step.epoch != *pipeline_.epoch) {
    if (!land_late(step))
      ++stale_results_;
    return;
  }
  const auto landed = flights_.take(step.batch);
  if (!landed) {
    ++duplicate_results_;
    return;
  }
  const auto& [parts, copied, lacks_copies] = *landed;
  for (const service_order& who : copied)
    if (sequence* s = sequences_.find(who))
      --s->copying;
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
    fail_step(step.batch, *landed, *failure);
    flights_.lose_copies(copied);
    for (const service_order& who : copied)
      if (sequence* s = sequences_.find(who))
        sequences_.lose_copies(*s);
  } else {
    std::span<const sample> drawn = step.samples;
    output_.expect_tokens(parts.size());
    auto next_pooled = step.pooled.begin();
    for (const part& p : parts) {
      if (p.pools)
        accept(step.batch, p, *next_pooled++);
      else
        accept(step.batch, p, drawn.first(p.draws()));
      drawn = drawn.subspan(p.draws());
    }
  }
  sequences_.sweep();
}

template <class Parts>
void acknowledgement::record_step(const sampled& step, const Parts& parts, bool has_failed) {
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
  busy.resize(std::max(busy.size(),
                       std::min<std::size_t>(step.stage_micros.size(), pipeline_.shape.stages)));
  for (std::size_t i = 0; i < std::min(busy.size(), step.stage_micros.size()); ++i)
    busy[i] += step.stage_micros[i];
}

// The last stage completed this step after the epoch closed, so every stage had run it. Its result
// equals that of a redone step. If the KV is lost, it is recomputed from a log that includes these
// tokens. Draft tokens are not verified any more. False if there is no such step.
bool acknowledgement::land_late(const sampled& step) {
  if (step.epoch != pipeline_.last_epoch)
    return false;
  const auto found = flights_.take_late(step.batch);
  if (!found)
    return false;
  const auto& parts = *found;
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
    suspects_.clear(p.who, p.position + p.rows);
    const auto* result = p.pools ? &*next_pooled++ : nullptr;
    sequence* s = sequences_.find(p.who);
    if (s && s->state == sequence_state::running && p.position == s->computed) {
      sequences_.acknowledge(*s, p.rows, p.state_to);
      if (p.draws > 0)
        take_token(*s, drawn.front());
      if (result)
        take_pooled(*s, *result);
      sequences_.settle(*s);
      sequences_.update(*s);
      sequences_.came_back(*s, step.batch);
    }
    drawn = drawn.subspan(p.draws);
  }
  sequences_.sweep();
  return true;
}

// The sequence is no longer in flight with this batch. Rows out of order are void: whatever is not
// acknowledged is redone.
sequence& acknowledgement::land(batch_id batch, const part& p) {
  sequence& s = *p.of;
  ENSURE(s.in_flight > 0, "a step of ticket {} came back that did not leave", s.id.ticket.value);
  --s.in_flight;
  s.drawing -= p.samples ? 1 : 0;
  if (p.position != s.computed || s.copying > 0)
    s.is_void = true;
  sequences_.came_back(s, batch);
  return s;
}

// Draws behind draft tokens count as long as each draft token equals the token drawn before it.
void acknowledgement::accept(batch_id batch, const part& p, std::span<const sample> drawn) {
  sequence* s = &land(batch, p);
  if (s->state != sequence_state::ended && !s->is_void) {
    const auto drafts = std::exchange(s->drafts, {});
    sequences_.acknowledge(*s, p.rows - p.drafts, p.state_to);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (i > 0) {
        if (s->state == sequence_state::ended || drawn[i - 1].token != drafts[i - 1])
          break;
        sequences_.acknowledge(*s, 1, p.state_to); // only of a model without states
        ++totals_.spec_decode_accepted_tokens;
      }
      take_token(*s, drawn[i]);
    }
  } else {
    sequences_.discard(*s, p.state_to);
  }
  sequences_.settle(*s);
  sequences_.update(*s);
}

void acknowledgement::accept(batch_id batch, const part& p, const pooled& result) {
  sequence& s = land(batch, p);
  if (s.state != sequence_state::ended && !s.is_void) {
    sequences_.acknowledge(s, p.rows, p.state_to);
    take_pooled(s, result);
  } else {
    sequences_.discard(s, p.state_to);
  }
  sequences_.settle(s);
  sequences_.update(s);
}

void acknowledgement::take_token(sequence& s, const sample& drawn) {
  tokens m = output_.message_of(s);
  m.samples.push_back(drawn);
  s.append(drawn.token);
  ++totals_.output_tokens;
  const std::uint32_t total = s.output_count();
  if (s.is_end(drawn.token, total - 1, config_.eos_ids))
    return output_.end_choice(s, std::move(m), finish::stop, std::nullopt, total);
  if (total >= s.terms.stop.max_tokens || !sequences_.fits(s.ids.size()))
    return output_.end_choice(s, std::move(m), finish::length, std::nullopt, total);
  output_.send(std::move(m));
}

// The result of the rows up to the last acknowledged one: the embedding, if that is the last row.
void acknowledgement::take_pooled(sequence& s, const pooled& result) {
  if (!s.terms.wants_embedding)
    return take_scores(s, result);
  s.pooled = result.values;
  if (s.computed < s.ids.size())
    return;
  tokens m = output_.message_of(s);
  m.embedding = result.values;
  output_.end_choice(s, std::move(m), finish::stop, std::nullopt, 0);
}

// Scores are sent with the first token; if no token is wanted, at once.
void acknowledgement::take_scores(sequence& s, const pooled& result) {
  s.scores.insert(s.scores.end(), result.scores.begin(), result.scores.end());
  if (s.terms.stop.max_tokens == 0 && !s.wants_scores())
    output_.end_choice(s, output_.message_of(s), finish::length, std::nullopt, 0);
}

// Ends the offending sequence if it is known; otherwise each of the batch is retried alone, once.
// After a memory shortage (does_not_fit) a sequence that was alone by chance is retried once more,
// because the shortage may have been temporary. A failure may arrive before that of an earlier step
// that it depends on: then it proves nothing, and the step is redone. So does a failure behind lost
// copies.
void acknowledgement::fail_step(batch_id batch, const flight& failed, const error& why) {
  const bool is_alone = failed.parts.size() == 1 && !failed.lacks_copies;
  for (const part& p : failed.parts) {
    const bool is_in_order = p.position == p.of->computed && p.of->copying == 0 && !p.of->is_void;
    sequence& s = land(batch, p);
    sequences_.discard(s, p.state_to);
    if (is_in_order && s.state != sequence_state::ended) {
      if (is_alone && (s.is_isolated || why.code != errc::does_not_fit)) {
        output_.fail_choice(s, why);
      } else {
        s.is_void = s.is_isolated = true;
        s.suspect_from = p.position;
        s.suspect_until = p.position + p.rows;
      }
    }
    sequences_.settle(s);
    sequences_.update(s);
  }
}

} // namespace baton::schedule
