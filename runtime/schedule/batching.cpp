// Selects the rows of the next step: continuous batching (Orca, OSDI 2022) with chunked prefill
// beside decode (Sarathi, arXiv 2308.16369). Decodes are divided evenly over the micro-batches in
// flight (gLLM, arXiv 2504.14775). Preemption is by swap or recompute. One micro-batch runs ahead
// of the tokens (docs/decisions/0008).
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/limits.hpp"

#include <algorithm>

namespace baton::schedule {
namespace {

// A prompt's chunk may draw too, and occupies a slice like any decoding row.
constexpr std::size_t slices_max = std::min(limits::slices_max, limits::draws_max);

// The budget of a message's body for a step's decodes, and again for its prompts; the rest is for
// FlatBuffers. The largest draw (context of limits::ids_max, with penalties) takes 12 MiB.
constexpr std::size_t bytes_max = limits::body_bytes_max / 4;

std::size_t draw_bytes(const sequence& s) {
  constexpr std::size_t fixed_bytes = 192;
  const std::size_t constrained_bytes =
      s.terms.sampling.constraint
          ? s.terms.sampling.constraint->text.size() + s.output_count() * sizeof(token_id)
          : 0;
  return fixed_bytes + constrained_bytes +
         (s.terms.sampling.needs_history() ? s.ids.size() * sizeof(token_count) : 0) +
         s.pooled.size() * sizeof(float) + s.terms.sampling.biases.size() * sizeof(logit_bias) +
         s.terms.stop.stop_ids.size() * sizeof(token_id);
}

// Approximate size of a drawing row in a message.
std::size_t row_bytes(const sequence& s, std::size_t blocks) {
  return draw_bytes(s) + blocks * sizeof(block_index);
}

} // namespace

std::optional<micro_batch> scheduler::next(time_point now) {
  if (!epoch_ || flights_.size() >= flights_max() || has_isolated_in_flight_)
    return std::nullopt;
  start_waiting();
  is_speculating_ = should_speculate();
  if (!lists_.isolated().empty() && !has_unfinished_suspects())
    return next_alone(now);
  std::vector<planned> plan;
  plan_decodes(plan);
  plan_prefill(plan);
  if (!plan.empty())
    return form(plan, now);
  return lists_.isolated().empty() ? std::nullopt : next_alone(now);
}

// Whether isolated sequences still have rows before their suspect ones to compute. These run
// together with others first: alone, one after the other, it would take many times as long.
bool scheduler::has_unfinished_suspects() const {
  const auto& prompts = lists_.prefilling();
  return std::any_of(prompts.begin(), prompts.end(),
                     [](const auto& entry) { return entry.second->is_isolated; });
}

// Requires: a sequence that must run alone. Waits until nothing else is in flight, so that a
// failure can be attributed with certainty.
std::optional<micro_batch> scheduler::next_alone(time_point now) {
  sequence& s = *lists_.isolated().begin()->second;
  if (!flights_.empty() || !make_room(s))
    return std::nullopt;
  has_isolated_in_flight_ = true;
  const auto rows = std::min(config_.prefill_chunk, config_.max_num_batched_tokens);
  return form({{&s, std::min<std::size_t>(s.rows_left(), rows)}}, now);
}

// Starts sequences in order; one that does not fit blocks the others, so that none starves.
void scheduler::start_waiting() {
  const auto& waiting = lists_.waiting();
  while (!waiting.empty() && start(*waiting.begin()->second)) {
  }
}

// Takes a slot, a share of the token budget and blocks for all known ids, so that a prefill never
// stops half way. Preempts running sequences with a higher priority number if necessary. Some
// blocks stay free for the decodes to grow into, unless no other sequence runs.
bool scheduler::start(sequence& s) {
  const auto lacks_slot = [&] {
    return running_count() >= config_.max_num_seqs || passes_budget(s, lists_.running_potential());
  };
  const auto lacks_blocks = [&] {
    constexpr std::size_t watermark_divisor = 100; // vLLM's watermark of 0.01
    const std::size_t watermark =
        running_count() == 0 ? 0 : 1 + blocks_.total() / watermark_divisor;
    const std::size_t missing = blocks_.needed(s.ids.size()) - blocks_.of(s.id).size();
    return missing + watermark > blocks_.free();
  };
  if (s.in_flight > 0 || (lacks_slot() && !can_preempt_for(s)))
    return false;
  reuse_prefix(s);
  while (lacks_slot() || lacks_blocks()) {
    if (has_pending_releases() || !can_preempt_for(s)) {
      settle(s); // the matched prefix is released again
      return false;
    }
    preempt(*last_running());
  }
  ENSURE(blocks_.grow(s.id, s.ids.size()), "blocks were free and are not");
  swap_in(s);
  s.state = sequence_state::running;
  update_lists(s);
  if (!s.has_started) {
    s.has_started = true;
    ++tickets_.at(s.id.ticket).choices_started;
    recount(s.id.ticket);
  }
  return true;
}

// Whether preempting less important sequences would free enough; otherwise they would stop in vain.
// Shared blocks count too, an error in favour of the more important sequence.
bool scheduler::can_preempt_for(const sequence& s) const {
  std::size_t blocks = blocks_.free() + blocks_.of(s.id).size();
  bool has_any = false;
  auto potential = lists_.running_potential();
  const auto& running = lists_.running();
  for (auto it = running.rbegin(); it != running.rend() && it->first.priority > s.priority; ++it) {
    has_any = true;
    blocks += blocks_.of(it->first.id).size();
    potential -= it->second->potential_tokens();
  }
  return has_any && blocks_.needed(s.ids.size()) <= blocks && !passes_budget(s, potential);
}

// Takes over cached blocks. The results are bitwise equal: keys and values of a row depend only on
// the tokens up to it.
void scheduler::reuse_prefix(sequence& s) {
  if (!config_.enable_prefix_caching || s.in_flight > 0)
    return;
  // Every row of its prompt contributes to the result.
  if (s.terms.wants_embedding || s.wants_scores())
    return;
  const std::size_t reached = blocks_.match_prefix(s.id, s.terms.cache_salt, s.ids, s.computed);
  s.cached += std::min(reached, s.prompt_count) - std::min(s.computed, s.prompt_count);
  s.computed = s.issued = reached;
  s.clear_if_computed();
}

// A draft row costs little while few rows share the same weights, and as much as any other in a
// large batch.
bool scheduler::should_speculate() const {
  return config_.speculative_disable_by_batch_size == 0 ||
         running_count() < config_.speculative_disable_by_batch_size;
}

std::uint32_t scheduler::drafts_wanted(const sequence& s) const {
  if (!is_speculating_)
    return 0;
  return s.terms.sampling.num_speculative_tokens < 0
             ? config_.num_speculative_tokens
             : static_cast<std::uint32_t>(s.terms.sampling.num_speculative_tokens);
}

// A sequence runs ahead of at most one token. It does not if that token will be its last, or if
// draft tokens are wanted, which follow a known token.
bool scheduler::can_issue(const sequence& s) const {
  if (s.state != sequence_state::running || s.is_void || !s.drafts.empty() || s.must_run_alone() ||
      s.must_wait())
    return false;
  if (s.drawing == 0)
    return true;
  return config_.async_scheduling && s.drawing == 1 && drafts_wanted(s) == 0 &&
         s.output_count() + s.drawing < s.terms.stop.max_tokens && fits(s.ids_expected());
}

// Sequences that can run ahead of the first batch to return: a row that waits for a later batch
// would delay all others.
std::vector<sequence*> scheduler::run_ahead_candidates() const {
  std::vector<sequence*> ahead;
  if (flights_.empty())
    return ahead;
  const auto& [first, f] = *flights_.begin();
  for (const part& p : f.parts)
    if (p.samples && p.of->last_draw.batch == first && can_issue(*p.of))
      ahead.push_back(p.of);
  return ahead;
}

// The sequences of the next step's decode rows, at most `rows`. A free stage takes those with known
// tokens instead of waiting. An extra batch is worth its weights only if a sequence in flight
// continues in it; otherwise two groups would alternate indefinitely.
scheduler::chosen_decodes scheduler::choose_decodes(std::size_t rows) const {
  const bool wants_ahead = is_extra() || lists_.ready().empty();
  const auto ahead = wants_ahead ? run_ahead_candidates() : std::vector<sequence*>();
  if (is_extra() && ahead.empty())
    return {};
  std::vector<sequence*> chosen;
  const std::size_t decoding = lists_.running().size() - lists_.prefilling().size();
  const std::size_t share =
      std::min<std::size_t>((decoding + shape_.stages - 1) / shape_.stages, rows);
  chosen.reserve(share);
  lists_.ready().copy_to(chosen, share);
  const auto left = std::min(share - chosen.size(), ahead.size());
  chosen.insert(chosen.end(), ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(left));
  std::size_t count = 0, bytes = 0;
  for (; count < chosen.size(); ++count) {
    const auto more = row_bytes(*chosen[count], blocks_.needed(chosen[count]->ids_expected()));
    if (bytes + more > bytes_max && count > 0)
      break;
    bytes += more;
  }
  chosen.resize(count);
  return {std::move(chosen), bytes};
}

void scheduler::plan_decodes(std::vector<planned>& plan) {
  const auto& prompts = lists_.prefilling();
  const bool has_prefill = std::any_of(prompts.begin(), prompts.end(), [this](const auto& entry) {
    return can_issue(*entry.second);
  });
  // Half of the rows are reserved for a prompt, however many sequences decode: otherwise it would
  // wait for their ends. Each row draws, including those of draft tokens.
  const std::size_t rows =
      std::min<std::size_t>(config_.max_num_batched_tokens, slices_max) / (has_prefill ? 2u : 1u);
  auto [chosen, bytes] = choose_decodes(rows);
  // In order of service: make_room preempts later sequences, never one already in the plan.
  const auto is_before = [](const sequence* a, const sequence* b) {
    return a->service_order() < b->service_order();
  };
  if (!std::is_sorted(chosen.begin(), chosen.end(), is_before))
    std::sort(chosen.begin(), chosen.end(), is_before);
  std::size_t rows_free = rows - chosen.size();
  plan.reserve(chosen.size() + 1);
  for (sequence* s : chosen) {
    if (s->state != sequence_state::running || !make_room(*s))
      continue;
    const std::size_t bytes_left = bytes_max - std::min(bytes, bytes_max);
    propose_drafts(*s, std::min(rows_free, bytes_left / draw_bytes(*s)));
    rows_free -= s->drafts.size();
    bytes += s->drafts.size() * draw_bytes(*s);
    plan.push_back({s, 1 + s->drafts.size()});
  }
}

// Proposes draft tokens if the request or the server wants them: as many as may become output, in
// blocks that no other sequence needs. Not while the sequence's own token is pending.
void scheduler::propose_drafts(sequence& s, std::size_t rows_free) {
  const std::size_t wanted = drafts_wanted(s);
  if (wanted == 0 || s.in_flight > 0 || s.is_isolated)
    return;
  // Either the row's own token ends the sequence, or there is room for one behind it.
  const std::size_t output_left = s.terms.stop.max_tokens - s.output_count() - 1;
  const std::size_t context_left = config_.max_model_len - s.ids.size() - 1;
  const std::size_t most = std::min({wanted, rows_free, output_left, context_left});
  s.drafts = look_up(s.ids, most, config_.lookup);
  const auto needs_block = [&] {
    return blocks_.needed(s.ids_expected()) > blocks_.of(s.id).size();
  };
  while (!s.drafts.empty() && needs_block() &&
         (blocks_.free() <= running_count() || !blocks_.grow(s.id, s.ids_expected())))
    s.drafts.pop_back();
  totals_.spec_decode_drafts += s.drafts.empty() ? 0 : 1;
  totals_.spec_decode_draft_tokens += s.drafts.size();
}

void scheduler::plan_prefill(std::vector<planned>& plan) {
  std::size_t decoding = 0;
  for (const planned& p : plan)
    decoding += p.rows;
  std::size_t left =
      std::min<std::size_t>(config_.prefill_chunk, config_.max_num_batched_tokens - decoding);
  const std::size_t prompts_max = plan.size() + slices_max - decoding;
  std::size_t bytes = 0, pools = 0;
  std::vector<sequence*> moved;
  for (const auto& [who, s] : lists_.prefilling()) {
    if (left == 0 || plan.size() == prompts_max)
      break;
    if (!can_issue(*s) || (s->pools_next() && pools == limits::pools_max))
      continue;
    reuse_prefix(*s); // a sequence before it may have computed the same prefix meanwhile
    if (s->must_run_alone()) {
      moved.push_back(s); // it has reached its suspect rows
      continue;
    }
    const std::size_t more = row_bytes(*s, blocks_.needed(s->ids_expected()));
    if (bytes > 0 && bytes + more > bytes_max)
      break;
    bytes += more;
    pools += s->pools_next() ? 1 : 0;
    const std::size_t rows = std::min(left, s->rows_in_company());
    plan.push_back({s, rows});
    left -= rows;
  }
  for (sequence* s : moved)
    update_lists(*s);
}

// Provides blocks for all expected ids of a running sequence, by preempting the last in order of
// service if necessary. False: not now, because blocks are about to be released or the sequence
// itself was preempted.
bool scheduler::make_room(sequence& s) {
  while (!blocks_.grow(s.id, s.ids_expected())) {
    if (has_pending_releases())
      return false;
    sequence* last = last_running();
    ENSURE(last && running_count() > 1, "ticket {} does not fit into all {} blocks alone",
           s.id.ticket.value, blocks_.total());
    preempt(*last);
    if (last == &s)
      return false;
  }
  return true;
}

sequence* scheduler::last_running() {
  return lists_.running().empty() ? nullptr : lists_.running().rbegin()->second;
}

void scheduler::preempt(sequence& s) {
  s.is_leaving = true;
  ++totals_.preemptions;
  put_back(s);
}

// Back to waiting; results in flight still count, then the blocks are released.
void scheduler::put_back(sequence& s) {
  s.state = sequence_state::waiting;
  settle(s);
  update_lists(s);
}

// Saves the computed positions in swap space if it has room; not for a prompt alone.
void scheduler::swap_out(sequence& s) {
  const std::size_t before = copies_.size();
  if (s.computed == 0 || s.terms.wants_embedding || s.wants_scores() ||
      !blocks_.swap_out(s.id, s.computed, copies_))
    return;
  s.swapped = s.computed;
  ++s.copying;
  copied_.push_back(s.service_order());
  totals_.swapped_out_blocks += copies_.size() - before;
}

// Restores from swap space the positions that are not in the prefix cache.
void scheduler::swap_in(sequence& s) {
  if (s.swapped > s.computed) {
    const std::size_t before = copies_.size();
    blocks_.swap_in(s.id, s.computed, copies_);
    s.computed = s.issued = s.swapped;
    ++s.copying;
    copied_.push_back(s.service_order());
    totals_.swapped_in_blocks += copies_.size() - before;
  }
  blocks_.forget_swapped(s.id);
  s.swapped = 0;
}

pool scheduler::pool_of(const sequence& s, std::size_t end, std::uint32_t slice) const {
  if (s.terms.wants_embedding)
    return {slice, config_.pooling, end == s.ids.size(), s.pooled};
  return {
      slice,         pooling::scores, /*is_last=*/false,
      /*before=*/{}, s.ids[end],      static_cast<std::uint32_t>(s.terms.sampling.prompt_logprobs)};
}

// The first step of any of its sequences ends the ticket's queue time.
void scheduler::record_first_step(sequence& s, time_point now) {
  if (std::exchange(s.has_stepped, true))
    return;
  auto& since = tickets_.at(s.id.ticket).stepped_at;
  since = since.value_or(now);
}

micro_batch scheduler::form(const std::vector<planned>& plan, time_point now) {
  micro_batch batch;
  batch.batch = next_batch_;
  batch.epoch = *epoch_;
  ++next_batch_.value;
  batch.copies = std::exchange(copies_, {});
  auto& [parts, copied] = flights_[batch.batch];
  copied = std::exchange(copied_, {});
  parts.reserve(plan.size());
  batch.slices.reserve(plan.size());
  batch.tokens.reserve(plan.size());
  batch.draws.reserve(plan.size());
  for (const auto& [which, rows] : plan) {
    sequence& s = *which;
    const std::size_t end = s.issued + rows;
    const bool pools = s.pools_next();
    const bool samples = !pools && end == s.ids_expected();
    const bool is_prefill = s.issued < s.prompt_count || rows - s.drafts.size() > 1;
    record_first_step(s, now);
    const auto blocks = blocks_.of(s.id).first(blocks_.needed(end));
    batch.slices.push_back({s.id,
                            static_cast<std::uint32_t>(s.issued),
                            static_cast<std::uint32_t>(rows),
                            samples,
                            {blocks.begin(), blocks.end()}});
    const std::size_t known_end = std::min(end, s.ids.size());
    if (s.issued < known_end)
      batch.tokens.insert(batch.tokens.end(), s.ids.begin() + static_cast<std::ptrdiff_t>(s.issued),
                          s.ids.begin() + static_cast<std::ptrdiff_t>(known_end));
    if (s.drawing > 0 && known_end < end) {
      batch.feeds.push_back({batch.rows(), s.last_draw.index, s.last_draw.batch});
      batch.tokens.push_back(placeholder_token);
    }
    batch.tokens.insert(batch.tokens.end(), s.drafts.begin(), s.drafts.end());
    batch.slices.back().drafts = static_cast<std::uint32_t>(s.drafts.size());
    if (samples) {
      s.last_draw = {batch.batch, static_cast<std::uint32_t>(batch.draws.size())};
      for (std::size_t drafted = 0; drafted <= s.drafts.size(); ++drafted)
        batch.draws.push_back(s.next_draw(config_.eos_ids, drafted));
      ++s.drawing;
    }
    if (pools)
      batch.pools.push_back(pool_of(s, end, static_cast<std::uint32_t>(batch.slices.size() - 1)));
    parts.push_back({&s, s.issued, rows, samples, s.drafts.size(), pools,
                     pools && !s.terms.wants_embedding, is_prefill});
    s.issued = end;
    ++s.in_flight;
    update_lists(s);
  }
  return batch;
}

} // namespace baton::schedule
