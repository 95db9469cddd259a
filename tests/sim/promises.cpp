#include "tests/sim/promises.hpp"

#include "tests/sim/world.hpp"

#include <algorithm>

namespace baton::sim {
namespace {

using namespace std::chrono_literals;

// A batch in flight comes back before its sequence gives up its room.
constexpr std::uint64_t in_flight_max = 8;
// A fallen link is detected long before: only a hanging step reaches the timeout.
constexpr auto unanswered_max = actors::step_timeout + 1s;
// With the same shards, none of which has reached a step: two at once, then after 1, 1, 2, 3, 13,
// 13 ... s.
constexpr std::size_t openings_max = 12;
constexpr auto openings_period = 60s;

} // namespace

void promises::report(std::string what) {
  constexpr std::size_t enough = 20;
  if (broken_.size() < enough)
    broken_.push_back(std::move(what));
}

void promises::on_actor_end(const std::string& whose) {
  if (!world_.on_step) // it may throw
    report(fmt::format("an actor of {} ended by itself", whose));
}

// -- The scheduler: its own account, its bounds, its epochs --

void promises::after_scheduler() {
  const auto* s = world_.scheduler();
  if (!s)
    return;
  s->core->check_integrity();
  const auto load = s->core->load();
  check_openings(*s, load);
  const auto& o = world_.options();
  if (load.running > o.slots)
    report(fmt::format("{} sequences in {} slots", load.running, o.slots));
  if (o.state_slots != 0 && 2 * load.running > o.state_slots)
    report(fmt::format("{} sequences have {} slots for states", load.running, o.state_slots));
  if (o.token_budget != 0 && load.running_max_tokens > o.token_budget)
    report(fmt::format("{} sequences may come to {} tokens, the budget is {}", load.running,
                       load.running_max_tokens, o.token_budget));
  const auto& counted = s->core->counted();
  const auto open = counted.tickets_granted - counted.tickets_ended;
  // A client that resumes a suspended ticket, or at a head without its log, was admitted before:
  // other tickets have taken its slot meanwhile.
  most_orphaned_ = std::max<std::uint64_t>(most_orphaned_, load.orphaned);
  if (std::exchange(head_, s->options.first_epoch) != s->options.first_epoch)
    open_before_ =
        std::max(open_before_, std::exchange(most_open_, 0)); // also of the head before the last
  most_open_ = std::max<std::uint64_t>(most_open_, open);
  if (!o.by_priority && // an urgent one does not wait behind others
      open > o.queue_max + o.slots + most_orphaned_ + open_before_)
    report(fmt::format("{} tickets, {} may wait for {} slots", open, o.queue_max, o.slots));
  const auto waited = world_.now() - s->stepped_at;
  if (s->core->has_flights() && waited > unanswered_max)
    report(fmt::format("a step is out for {} s", waited / 1s));
}

void promises::on_new_shard() {
  openings_.clear();
}

void promises::check_openings(const actors::scheduler_state& s, const load_report& load) {
  const auto epoch = s.pipeline->epoch();
  if (epoch < epoch_)
    report(fmt::format("epoch {} after {}", epoch.value, epoch_.value));
  const auto steps = load.steps + load.prefills_failed + load.decodes_failed;
  if (std::exchange(steps_, steps) != steps || s.options.first_epoch != head_)
    openings_.clear();
  if (std::exchange(epoch_, epoch) != epoch)
    openings_.push_back(world_.now());
  while (!openings_.empty() && world_.now() - openings_.front() > openings_period)
    openings_.pop_front();
  if (openings_.size() > openings_max)
    report(fmt::format("{} epochs within {} s, and no step came back", openings_.size(),
                       openings_period / 1s));
}

// -- The stages: what their engines are given --

void promises::on_disagreement(stage_index stage, std::uint32_t rank) {
  report(fmt::format("rank {} of stage {} computes another thing than rank 0", rank, stage));
}

void promises::before_step(process_id shard, const micro_batch& batch) {
  auto& highest = run_[shard];
  if (batch.epoch < highest)
    report(fmt::format("shard {} runs a step of epoch {} after {}", shard.value, batch.epoch.value,
                       highest.value));
  highest = std::max(highest, batch.epoch);
  std::map<block_index, std::uint32_t> named;
  for (const auto& s : batch.slices)
    for (auto block : s.blocks)
      ++named[block];
  constexpr std::uint32_t block_positions = 4;
  for (const auto& s : batch.slices)
    for (auto i = s.position / block_positions; i < s.blocks.size(); ++i)
      if (named[s.blocks[i]] > 1)
        report(fmt::format("block {} is written for ticket {} and read for another", s.blocks[i],
                           s.sequence.ticket.value));
  if (shard_of(shard) == 0) // rank 0 of stage 0
    check_order(batch);
}

// A sequence that restarts within an epoch has made room for one before it in the order of service.
// Drafts, failed steps and suspended sequences are recomputed as well: not checked then.
void promises::check_order(const micro_batch& batch) {
  const auto& o = world_.options();
  if (o.drafts > 0 || o.by_priority || world_.on_step || most_orphaned_ > 0)
    return;
  if (batch.epoch != order_epoch_)
    order_.clear();
  order_epoch_ = batch.epoch;
  for (const auto& s : batch.slices) {
    auto& p = order_[s.sequence];
    const bool starts_over = s.position < p.expected;
    const auto elder_ran =
        std::any_of(order_.begin(), order_.find(s.sequence), [&](const auto& entry) {
          return entry.second.last_batch + in_flight_max >= p.last_batch;
        });
    if (starts_over && !elder_ran)
      report(fmt::format("ticket {} starts over at {} of {}, and nobody before it needed room",
                         s.sequence.ticket.value, s.position, p.expected));
    p = {s.position + s.rows, batch.batch.value};
  }
}

// -- Links and streams --

void promises::after_tick() {
  check_links();
}

void promises::check_links() {
  for (const auto& [process, l] : world_.running()) {
    for (const auto& p : l.links->peers()) {
      const bool is_up = p.state == cluster::link_state::up;
      auto& met = met_[{process, p.process}];
      if (p.incarnation < met && p.incarnation)
        report(fmt::format("node {} went back to life {} of node {}", process.value,
                           p.incarnation.value, p.process.value));
      met = std::max(met, p.incarnation);
      if (!is_up && p.waiting_count > 0)
        report(fmt::format("node {} keeps {} messages for node {}, which is down", process.value,
                           p.waiting_count, p.process.value));
      // A single message may be larger than the window.
      constexpr std::uint64_t message_bytes_max = 16 << 10;
      if (is_up && p.outstanding_bytes > std::max(world_.options().window_bytes, message_bytes_max))
        report(fmt::format("node {} has {} bytes outstanding at node {}", process.value,
                           p.outstanding_bytes, p.process.value));
    }
  }
}

void promises::at_rest() {
  if (const auto* s = world_.scheduler()) {
    if (!s->core->is_idle())
      report("the scheduler is not idle at rest");
    const auto load = s->core->load();
    if (load.running + load.waiting + load.blocks_used + load.swap_blocks_used +
            load.state_slots_used >
        0)
      report(fmt::format("at rest {} run, {} wait, {} blocks, {} of swap space and {} state slots "
                         "are used",
                         load.running, load.waiting, load.blocks_used, load.swap_blocks_used,
                         load.state_slots_used));
  }
  if (const auto* d = world_.detokenizer(); d && d->streams.size() != d->kept.size())
    report(fmt::format("the detokenizer has {} streams at rest, {} of which have ended",
                       d->streams.size(), d->kept.size()));
  if (const auto* b = world_.gateway_state(); b && b->requests_open() != 0)
    report(fmt::format("the gateway has {} requests open at rest", b->requests_open()));
  for (const auto& [process, l] : world_.running())
    for (const auto& p : l.links->peers())
      if (p.state == cluster::link_state::up && (p.outstanding_bytes > 0 || p.waiting_count > 0))
        report(
            fmt::format("at rest {} bytes of node {} are outstanding at node {}, {} messages wait",
                        p.outstanding_bytes, process.value, p.process.value, p.waiting_count));
}

// -- The supervisor --

void promises::on_exit(process_id child) {
  exits_[child].push_back(world_.now());
}

// The next root counts from zero.
void promises::on_root_lost() {
  exits_.clear();
}

// Each start except the first follows an exit.
void promises::on_start(process_id child, bool is_alive) {
  if (is_alive)
    report(fmt::format("node {} is started while it lives", child.value));
  const auto& limits = world_.options().intensity;
  auto& exits = exits_[child];
  while (!exits.empty() && exits.back() - exits.front() > limits.period)
    exits.pop_front();
  if (exits.size() > limits.attempts_max)
    report(fmt::format("node {} is restarted {} times within {} s", child.value, exits.size(),
                       limits.period.count()));
}

} // namespace baton::sim
