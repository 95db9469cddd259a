#include "actors/stage.hpp"

#include "actors/actor_faults.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <utility>

namespace baton::actors {
namespace {

using stage_pointer = own_stage_actor::stateful_pointer<stage_state>;

constexpr std::align_val_t activation_alignment{64}; // a cache line, and the widest vector load

// The engine's output is valid until its next run, so messages own a copy.
payload copy_rows(std::span<const std::span<const std::byte>> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts)
    bytes += part.size();
  std::shared_ptr<void> memory(
      ::operator new(std::max<std::size_t>(bytes, 1), activation_alignment),
      [](void* p) { ::operator delete(p, activation_alignment); });
  auto* to = static_cast<std::byte*>(memory.get());
  for (const auto& part : parts)
    to = std::copy(part.begin(), part.end(), to);
  const auto* data = static_cast<const std::byte*>(memory.get());
  return {std::move(memory), data, bytes};
}

// Without a copy if the engine passes ownership and the rows are aligned.
payload rows_of(const engine::step_output& out) {
  const auto bytes = std::as_bytes(out.activations);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (!out.owner || address % static_cast<std::size_t>(activation_alignment) != 0)
    return copy_rows({&bytes, 1});
  return {out.owner, bytes.data(), bytes.size()};
}

bool is_last(const stage_state& s) {
  return s.config.stage + 1 == s.config.stages;
}

// Requires: in an epoch that has this stage and rank.
const stage_address& member(const stage_state& s, stage_index stage, std::uint32_t rank = 0) {
  return s.current.stages[std::size_t{stage} * s.config.width + rank];
}

// The shards that receive messages from this one: the other ranks (batches), the next stage (rows),
// and the first (drawn tokens).
std::vector<stage_address> listeners(const stage_state& s) {
  std::vector<stage_address> all;
  if (s.config.rank > 0)
    return all;
  for (std::uint32_t rank = 1; rank < s.config.width; ++rank)
    all.push_back(member(s, s.config.stage, rank));
  if (!is_last(s))
    all.push_back(member(s, s.config.stage + 1));
  if (s.config.stage > 0)
    all.push_back(member(s, 0));
  return all;
}

// Rank 0 enters before it sends a micro-batch, the other ranks on their first one.
result<void> enter_group(stage_state& s) {
  if (!s.config.group || s.entered == s.current.epoch)
    return {};
  if (auto ok = s.config.group->enter(s.current.epoch); !ok)
    return ok;
  s.entered = s.current.epoch;
  return {};
}

void announce(stage_pointer self) {
  self->send(self->state.config.scheduler, self->state.config.announcement);
}

void open_if_linked(stage_pointer self) {
  auto& s = self->state;
  if (s.is_open || s.is_lost || !s.current.epoch)
    return;
  for (const auto& listener : listeners(s)) {
    auto is_it = [&](const hello& h) {
      return h.process == listener.process && h.incarnation == listener.incarnation;
    };
    if (std::none_of(s.linked.begin(), s.linked.end(), is_it))
      return;
  }
  s.is_open = true;
  spdlog::info("stage {}: epoch {} is open", s.config.stage, s.current.epoch.value);
  self->send(s.config.scheduler,
             epoch_opened{s.current.epoch, s.config.stage, s.config.rank, s.has_taken});
}

// A failure costs only time: the KV is recomputed.
bool take_over(stage_state& s, const open_epoch& m) {
  if (!m.takes || !s.config.take_over)
    return false;
  const auto began = s.config.now_micros();
  if (auto ok = s.config.take_over(*m.takes); !ok) {
    spdlog::warn("stage {}: cannot take over the KV of the previous shards: {}", s.config.stage,
                 ok.error().message);
    return false;
  }
  spdlog::info("stage {}: took over {} KV blocks and {} states in {} us", s.config.stage,
               m.takes->blocks.size(), m.takes->states.size(), s.config.now_micros() - began);
  return true;
}

// The begun steps may have written their states, over that of a step whose rows were sent.
void forget_ready(stage_state& s) {
  if (s.begun > 0 || s.begun_in_feed) {
    s.config.engine->forget_begun();
    if (s.sent && s.config.announcement.state_slots > 0)
      s.sent->spoil();
  }
  s.ready.clear();
  s.begun = 0;
  s.begun_in_feed.reset();
  s.is_next_refused = false;
}

void enter_epoch(stage_pointer self, const open_epoch& m) {
  auto& s = self->state;
  if (m.epoch <= s.current.epoch || m.stage != s.config.stage || m.rank != s.config.rank ||
      m.width != s.config.width || m.stages.size() != std::size_t{s.config.stages} * m.width) {
    spdlog::warn("stage {}: refused epoch {} for rank {} of stage {}, {} shards (current epoch {})",
                 s.config.stage, m.epoch.value, m.rank, m.stage, m.stages.size(),
                 s.current.epoch.value);
    return;
  }
  s.has_taken = take_over(s, m);
  s.current = m;
  s.current.takes.reset();
  s.is_open = s.is_lost = false;
  s.feed.clear();
  forget_ready(s);
  if (s.sent)
    s.sent->begin_epoch();
  // At once, to end the previous epoch for ranks that still wait in it.
  if (s.config.rank == 0)
    if (auto ok = enter_group(s); !ok)
      spdlog::error("stage {}: {}", s.config.stage, ok.error().message); // its steps will report it
  for (const auto& listener : listeners(s))
    s.config.connect(listener);
  open_if_linked(self);
}

// Gives up this epoch: rank 0 reports the reason, and requests another epoch by announcing itself.
void lose_epoch(stage_pointer self, batch_id batch, std::string why) {
  auto& s = self->state;
  spdlog::warn("stage {}: epoch {} is lost: {}", s.config.stage, s.current.epoch.value, why);
  s.is_open = false;
  s.is_lost = true;
  if (s.config.rank > 0)
    return;
  const error lost{errc::stale_epoch, std::move(why), {}};
  self->send(s.config.scheduler, sampled{.batch = batch,
                                         .epoch = s.current.epoch,
                                         .samples = {},
                                         .stage_micros = {},
                                         .failure = lost});
  announce(self);
}

// Batches on their way to that shard are lost.
void lose_peer(stage_pointer self, const peer_down& m) {
  auto& s = self->state;
  std::erase_if(s.linked, [&](const hello& h) { return h.process == m.process; });
  if (!s.is_open)
    return;
  const auto all = listeners(s);
  if (std::none_of(all.begin(), all.end(), [&](const auto& l) { return l.process == m.process; }))
    return;
  lose_epoch(self, {}, fmt::format("process {} is down: {}", m.process.value, m.why));
}

// A copy with the tokens alone, which suffice for stage 0.
sampled tokens_of(const sampled& answer) {
  sampled slim{.batch = answer.batch,
               .epoch = answer.epoch,
               .samples = {},
               .stage_micros = {},
               .failure = answer.failure};
  for (const auto& drawn : answer.samples)
    slim.samples.push_back({drawn.token, 0, {}});
  return slim;
}

// Requires: stage 0.
void record_drawn(stage_state& s, const sampled& step) {
  s.feed.remember(step);
  if (s.sent && step.failure)
    s.sent->spoil();
}

void answer(stage_pointer self, sampled what) {
  auto& s = self->state;
  if (what.failure)
    spdlog::error("stage {}: batch {} failed: {}", s.config.stage, what.batch.value,
                  what.failure->message);
  if (s.config.stage == 0)
    record_drawn(s, what);
  else
    self->send(s.config.peers.stage(member(s, 0).process), tokens_of(what));
  self->send(s.config.scheduler, std::move(what));
}

std::span<const float> rows_in(const micro_batch& batch) {
  return {reinterpret_cast<const float*>(batch.activations.data),
          batch.activations.size_bytes / sizeof(float)};
}

// Requires: in the group.
result<engine::step_output> compute(stage_pointer self, const micro_batch& batch) {
  auto& s = self->state;
  for (std::uint32_t rank = 1; s.config.rank == 0 && rank < s.config.width; ++rank)
    self->send(s.config.peers.stage(member(s, s.config.stage, rank).process), batch);
  try {
    return s.config.engine->run(batch, rows_in(batch));
  } catch (const std::bad_alloc&) {
    // One sequence may need more than there is: the scheduler finds it (scheduler::fail_step).
    // Ranks of a stage must all continue or all fail.
    if (s.config.width > 1)
      throw;
    return fail(errc::does_not_fit, "stage {} has no memory for a step of {} rows", s.config.stage,
                batch.tokens.size());
  }
}

// Requires: not the last stage.
void pass_on(stage_pointer self, micro_batch& batch, payload rows) {
  auto& s = self->state;
  batch.activations = std::move(rows);
  batch.lease.reset();
  if (s.sent)
    s.sent->remember(batch);
  self->send(s.config.peers.stage(member(s, s.config.stage + 1).process), std::move(batch));
}

// `started_at`: when the engine began the step; by default now.
void run(stage_pointer self, micro_batch& batch, std::optional<std::uint64_t> started_at = {}) {
  auto& s = self->state;
  const auto started = started_at.value_or(s.config.now_micros());
  if (s.sent)
    if (const auto rows = s.sent->find(batch)) {
      batch.stage_micros.push_back(static_cast<std::uint32_t>(s.config.now_micros() - started));
      return pass_on(self, batch, copy_rows(*rows));
    }
  const auto entered = enter_group(s);
  auto out = entered ? compute(self, batch) : entered.error();
  batch.stage_micros.push_back(static_cast<std::uint32_t>(s.config.now_micros() - started));
  // The ranks may be out of step.
  if (!out && s.config.group && (!entered || s.config.group->is_broken()))
    return lose_epoch(self, batch.batch, out.error().message);
  if (s.config.rank > 0) {
    if (!out)
      spdlog::error("stage {}: batch {} failed: {}", s.config.stage, batch.batch.value,
                    out.error().message);
    return;
  }
  if (out && !is_last(s))
    return pass_on(self, batch, rows_of(*out));
  sampled step{.batch = batch.batch,
               .epoch = batch.epoch,
               .samples = {},
               .stage_micros = std::move(batch.stage_micros),
               .failure = std::nullopt};
  if (out) {
    step.samples = std::move(out->samples);
    step.pooled = std::move(out->pooled);
  } else {
    step.failure = out.error();
  }
  answer(self, std::move(step));
}

bool is_current(stage_state& s, epoch_id epoch) {
  if (s.is_open && epoch == s.current.epoch)
    return true;
  ++s.stale_batches;
  return false;
}

// One message for all waiting batches; it is handled after the messages already in the mailbox.
void call_run_next(stage_pointer self) {
  auto& s = self->state;
  if (s.ready.empty() || std::exchange(s.will_run_next, true))
    return;
  self->send(self, run_next{});
}

// Runs the batch at once, or queues it if the engine begins steps ahead.
void run_or_queue(stage_pointer self, micro_batch& batch) {
  auto& s = self->state;
  if (s.config.engine->begun_max() == 0)
    return run(self, batch);
  if (s.begun_in_feed == batch.batch)
    ++s.begun;
  s.begun_in_feed.reset();
  s.ready.push_back(std::move(batch));
  call_run_next(self);
}

// Begins a batch that waits for the tokens of the last begun one: a stage that draws them itself
// may pass them on within the engine.
void begin_in_feed(stage_state& s) {
  if (s.config.stage != 0 || !is_last(s) || s.begun == 0 || s.begun < s.ready.size() ||
      s.begun >= s.config.engine->begun_max())
    return;
  const auto* next = s.feed.next_behind(s.ready.back().batch);
  if (next != nullptr && s.config.engine->begin(*next, {}))
    s.begun_in_feed = next->batch;
}

// As many as the engine accepts, in order. Cached rows of stage 0 are not computed again.
void begin_steps(stage_state& s) {
  while (!s.is_next_refused && s.begun < s.ready.size() && s.begun < s.config.engine->begun_max()) {
    const auto& next = s.ready[s.begun];
    s.is_next_refused =
        (s.sent && s.sent->find(next)) || !s.config.engine->begin(next, rows_in(next));
    if (!s.is_next_refused && s.begun++ == 0)
      s.busy_since = s.config.now_micros();
  }
  if (!s.is_next_refused && !s.begun_in_feed)
    begin_in_feed(s);
}

void run_what_is_ready(stage_pointer self) {
  auto& s = self->state;
  while (auto next = s.feed.pop()) {
    if (next->filled)
      run_or_queue(self, next->batch);
    else
      answer(self, {.batch = next->batch.batch,
                    .epoch = next->batch.epoch,
                    .samples = {},
                    .stage_micros = {},
                    .failure = next->filled.error()});
  }
}

void on_run_next(stage_pointer self) {
  auto& s = self->state;
  s.will_run_next = false;
  if (!s.is_open)
    forget_ready(s);
  if (s.ready.empty())
    return;
  begin_steps(s);
  if (s.begun > 0 && s.config.engine->is_busy())
    return call_run_next(self);
  auto batch = std::move(s.ready.front());
  s.ready.pop_front();
  if (s.begun > 0) {
    --s.begun;
    run(self, batch, s.busy_since);
    s.busy_since = s.config.now_micros(); // of the next one, if it was begun
  } else {
    s.is_next_refused = false;
    run(self, batch);
  }
  run_what_is_ready(self); // a batch may have waited for its tokens
  call_run_next(self);
}

void on_batch(stage_pointer self, micro_batch& batch) {
  auto& s = self->state;
  if (!is_current(s, batch.epoch))
    return;
  if (s.config.stage > 0 || s.config.rank > 0)
    return run_or_queue(self, batch);
  s.feed.push(std::move(batch));
  run_what_is_ready(self);
}

void on_drawn(stage_pointer self, const sampled& step) {
  auto& s = self->state;
  if (!is_current(s, step.epoch))
    return;
  record_drawn(s, step);
  run_what_is_ready(self);
}

} // namespace

own_stage_actor::behavior_type stage(stage_pointer self, stage_config config) {
  install_fault_handlers(self);
  auto& state = self->state;
  state.config = std::move(config);
  if (const auto& own = state.config; own.stage == 0 && own.stages > 1 && own.width == 1)
    state.sent.emplace(own.stages + 1, own.announcement.block_positions);
  return {
      [self](const open_epoch& m) { enter_epoch(self, m); },
      [self](micro_batch& m) { on_batch(self, m); },
      [self](const sampled& m) { on_drawn(self, m); },
      [self](const peer_up& m) {
        auto& s = self->state;
        std::erase_if(s.linked, [&](const hello& h) { return h.process == m.peer.process; });
        s.linked.push_back(m.peer);
        if (m.peer.process == s.config.head)
          announce(self);
        open_if_linked(self);
      },
      [self](const peer_down& m) { lose_peer(self, m); },
      [self](const run_next&) { on_run_next(self); },
  };
}

} // namespace baton::actors
