#include "runtime/schedule/steps/batch_former.hpp"

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

std::optional<micro_batch> batch_former::next(time_point now) {
  if (!pipeline_.epoch || flights_.size() >= flights_max() || flights_.has_isolated())
    return std::nullopt;
  start_waiting();
  is_speculating_ = should_speculate();
  if (!sequences_.lists().isolated().empty() && !has_unfinished_suspects())
    return next_alone(now);
  std::vector<planned> plan;
  plan_decodes(plan);
  plan_prefill(plan);
  if (!plan.empty())
    return form(plan, now);
  return sequences_.lists().isolated().empty() ? std::nullopt : next_alone(now);
}

// Whether isolated sequences still have rows before their suspect ones to compute. These run
// together with others first: alone, one after the other, it would take many times as long.
bool batch_former::has_unfinished_suspects() const {
  const auto& prompts = sequences_.lists().prefilling();
  return std::any_of(prompts.begin(), prompts.end(),
                     [](const auto& entry) { return entry.second->is_isolated; });
}

// Requires: a sequence that must run alone. Waits until nothing else is in flight, so that a
// failure can be attributed with certainty.
std::optional<micro_batch> batch_former::next_alone(time_point now) {
  sequence& s = *sequences_.lists().isolated().begin()->second;
  if (!flights_.empty() || !sequences_.make_room(s))
    return std::nullopt;
  const auto states = sequences_.issue_state(s);
  ENSURE(states, "ticket {} has no slot for its state alone", s.id.ticket.value);
  flights_.isolate();
  const auto rows = std::min(config_.prefill_chunk, config_.max_num_batched_tokens);
  return form({{&s, std::min<std::size_t>(s.rows_left(), rows), *states}}, now);
}

// Starts sequences in order; one that does not fit blocks the others, so that none starves.
void batch_former::start_waiting() {
  const auto& waiting = sequences_.lists().waiting();
  while (!waiting.empty()) {
    sequence& s = *waiting.begin()->second;
    const bool is_first = !s.has_started;
    if (!sequences_.start(s))
      return;
    if (is_first)
      tickets_.count_start(s.id.ticket);
  }
}

// A draft row costs little while few rows share the same weights, and as much as any other in a
// large batch.
bool batch_former::should_speculate() const {
  return config_.speculative_disable_by_batch_size == 0 ||
         sequences_.running_count() < config_.speculative_disable_by_batch_size;
}

// A state cannot return to before a draft token.
std::uint32_t batch_former::drafts_wanted(const sequence& s) const {
  if (!is_speculating_ || sequences_.states().exist())
    return 0;
  return s.terms.sampling.num_speculative_tokens < 0
             ? config_.num_speculative_tokens
             : static_cast<std::uint32_t>(s.terms.sampling.num_speculative_tokens);
}

// A sequence runs ahead of at most one token. It does not if that token will be its last, or if
// draft tokens are wanted, which follow a known token.
bool batch_former::can_issue(const sequence& s) const {
  if (s.state != sequence_state::running || s.is_void || !s.drafts.empty() || s.must_run_alone() ||
      s.must_wait() || !sequences_.may_issue_state(s))
    return false;
  if (s.drawing == 0)
    return true;
  return config_.async_scheduling && s.drawing == 1 && drafts_wanted(s) == 0 &&
         s.output_count() + s.drawing < s.terms.stop.max_tokens &&
         sequences_.fits(s.ids_expected());
}

// Sequences that can run ahead of the first batch to return: a row that waits for a later batch
// would delay all others.
std::vector<sequence*> batch_former::run_ahead_candidates() const {
  std::vector<sequence*> ahead;
  if (flights_.empty())
    return ahead;
  const auto& [first, f] = *flights_.all().begin();
  for (const part& p : f.parts)
    if (p.samples && p.of->last_draw.batch == first && can_issue(*p.of))
      ahead.push_back(p.of);
  return ahead;
}

// The sequences of the next step's decode rows, at most `rows`. A free stage takes those with known
// tokens instead of waiting. An extra batch is worth its weights only if a sequence in flight
// continues in it; otherwise two groups would alternate indefinitely.
batch_former::chosen_decodes batch_former::choose_decodes(std::size_t rows) const {
  const bool wants_ahead = is_extra() || sequences_.lists().ready().empty();
  const auto ahead = wants_ahead ? run_ahead_candidates() : std::vector<sequence*>();
  if (is_extra() && ahead.empty())
    return {};
  std::vector<sequence*> chosen;
  const std::size_t decoding =
      sequences_.lists().running().size() - sequences_.lists().prefilling().size();
  const std::size_t share =
      std::min<std::size_t>((decoding + pipeline_.shape.stages - 1) / pipeline_.shape.stages, rows);
  chosen.reserve(share);
  sequences_.lists().ready().copy_to(chosen, share);
  const auto left = std::min(share - chosen.size(), ahead.size());
  chosen.insert(chosen.end(), ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(left));
  std::size_t count = 0, bytes = 0;
  for (; count < chosen.size(); ++count) {
    const auto more =
        row_bytes(*chosen[count], sequences_.blocks().needed(chosen[count]->ids_expected()));
    if (bytes + more > bytes_max && count > 0)
      break;
    bytes += more;
  }
  chosen.resize(count);
  return {std::move(chosen), bytes};
}

void batch_former::plan_decodes(std::vector<planned>& plan) {
  const auto& prompts = sequences_.lists().prefilling();
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
    if (s->state != sequence_state::running || !sequences_.make_room(*s))
      continue;
    const auto states = sequences_.issue_state(*s);
    if (!states)
      continue; // it is in flight
    const std::size_t bytes_left = bytes_max - std::min(bytes, bytes_max);
    propose_drafts(*s, std::min(rows_free, bytes_left / draw_bytes(*s)));
    rows_free -= s->drafts.size();
    bytes += s->drafts.size() * draw_bytes(*s);
    plan.push_back({s, 1 + s->drafts.size(), *states});
  }
}

// A state is a snapshot for the prefix cache only at the end of a block. So a prompt's chunk ends
// there, and one at the last such end that another sequence can continue from.
std::size_t batch_former::up_to_border(const sequence& s, std::size_t rows) const {
  if (!sequences_.states().exist() || !config_.enable_prefix_caching || s.terms.wants_embedding ||
      s.wants_scores())
    return rows;
  const std::size_t end = std::min(s.issued + rows, s.ids.size() - 1);
  const std::size_t border = end - end % pipeline_.shape.block_positions;
  return border > s.issued ? border - s.issued : rows;
}

// Proposes draft tokens if the request or the server wants them: as many as may become output, in
// blocks that no other sequence needs. Not while the sequence's own token is pending.
void batch_former::propose_drafts(sequence& s, std::size_t rows_free) {
  const std::size_t wanted = drafts_wanted(s);
  if (wanted == 0 || s.in_flight > 0 || s.is_isolated)
    return;
  // Either the row's own token ends the sequence, or there is room for one behind it.
  const std::size_t output_left = s.terms.stop.max_tokens - s.output_count() - 1;
  const std::size_t context_left = config_.max_model_len - s.ids.size() - 1;
  const std::size_t most = std::min({wanted, rows_free, output_left, context_left});
  s.drafts = look_up(s.ids, most, config_.lookup);
  while (!s.drafts.empty() && !sequences_.grow_for_drafts(s))
    s.drafts.pop_back();
  totals_.spec_decode_drafts += s.drafts.empty() ? 0 : 1;
  totals_.spec_decode_draft_tokens += s.drafts.size();
}

void batch_former::plan_prefill(std::vector<planned>& plan) {
  std::size_t decoding = 0;
  for (const planned& p : plan)
    decoding += p.rows;
  std::size_t left =
      std::min<std::size_t>(config_.prefill_chunk, config_.max_num_batched_tokens - decoding);
  const std::size_t prompts_max = plan.size() + slices_max - decoding;
  std::size_t bytes = 0, pools = 0;
  std::vector<sequence*> moved;
  for (const auto& [who, s] : sequences_.lists().prefilling()) {
    if (left == 0 || plan.size() == prompts_max)
      break;
    if (!can_issue(*s) || (s->pools_next() && pools == limits::pools_max))
      continue;
    sequences_.reuse_prefix(*s); // a sequence before it may have computed the same prefix meanwhile
    if (s->must_run_alone()) {
      moved.push_back(s); // it has reached its suspect rows
      continue;
    }
    const std::size_t more = row_bytes(*s, sequences_.blocks().needed(s->ids_expected()));
    if (bytes > 0 && bytes + more > bytes_max)
      break;
    const auto states = sequences_.issue_state(*s);
    if (!states)
      continue;
    bytes += more;
    pools += s->pools_next() ? 1 : 0;
    const std::size_t rows = up_to_border(*s, std::min(left, s->rows_in_company()));
    plan.push_back({s, rows, *states});
    left -= rows;
  }
  for (sequence* s : moved)
    sequences_.update(*s);
}

pool batch_former::pool_of(const sequence& s, std::size_t end, std::uint32_t slice) const {
  if (s.terms.wants_embedding)
    return {
        .slice = slice, .how = config_.pooling, .is_last = end == s.ids.size(), .before = s.pooled};
  return {.slice = slice,
          .how = pooling::scores,
          .is_last = false,
          .before = {},
          .next = s.ids[end],
          .top = static_cast<std::uint32_t>(s.terms.sampling.prompt_logprobs)};
}

micro_batch batch_former::form(const std::vector<planned>& plan, time_point now) {
  micro_batch batch;
  batch.batch = next_batch_;
  batch.epoch = *pipeline_.epoch;
  ++next_batch_.value;
  auto& flight = flights_.add(batch.batch);
  auto& parts = flight.parts;
  auto pending = sequences_.take_copies();
  batch.copies = std::move(pending.copies);
  flight.copied = std::move(pending.of);
  parts.reserve(plan.size());
  batch.slices.reserve(plan.size());
  batch.tokens.reserve(plan.size());
  batch.draws.reserve(plan.size());
  for (const auto& [which, rows, states] : plan) {
    sequence& s = *which;
    const std::size_t end = s.issued + rows;
    const bool pools = s.pools_next();
    const bool samples = !pools && end == s.ids_expected();
    const bool is_prefill = s.issued < s.prompt_count || rows - s.drafts.size() > 1;
    if (!std::exchange(s.has_stepped, true))
      tickets_.record_step(s.id.ticket, now);
    const auto blocks = sequences_.blocks().of(s.id).first(sequences_.blocks().needed(end));
    batch.slices.push_back({.sequence = s.id,
                            .position = static_cast<std::uint32_t>(s.issued),
                            .rows = static_cast<std::uint32_t>(rows),
                            .samples = samples,
                            .blocks = {blocks.begin(), blocks.end()},
                            .state_from = states.from,
                            .state_to = states.to});
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
    parts.push_back({.of = &s,
                     .position = s.issued,
                     .rows = rows,
                     .samples = samples,
                     .drafts = s.drafts.size(),
                     .pools = pools,
                     .scores = pools && !s.terms.wants_embedding,
                     .is_prefill = is_prefill,
                     .state_to = states.to});
    s.issued = end;
    ++s.in_flight;
    sequences_.update(s);
  }
  return batch;
}

} // namespace baton::schedule
