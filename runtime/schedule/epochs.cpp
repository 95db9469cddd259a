// The part of scheduler for the pipeline's lifecycle: epochs open and close.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/result.hpp"

namespace baton::schedule {

void scheduler::open_epoch(epoch_id epoch, const pipeline_shape& shape, loss last, kv_fate kv) {
  auto& pipeline = context_.pipeline;
  ENSURE(!pipeline.epoch && epoch > pipeline.last_epoch, "epoch {} opens after {}", epoch.value,
         pipeline.last_epoch.value);
  ENSURE(shape.stages > 0, "a pipeline without stages");
  pipeline.epoch = pipeline.last_epoch = epoch;
  const bool is_same_memory = pipeline.shape.blocks == shape.blocks &&
                              pipeline.shape.block_positions == shape.block_positions &&
                              pipeline.shape.state_slots == shape.state_slots;
  pipeline.shape = shape;
  if (kv == kv_fate::lost || !is_same_memory)
    sequences_.forget_kv();
  sequences_.forget_late_states();
  sequences_.offer_swap();
  pipeline.closed_at.reset();
  flights_.open_epoch();
  ++context_.totals.epochs;
  if (last == loss::shard)
    quarantine(kv);
  suspects_.forget();
  refuse_embeddings();
  for (auto& [who, s] : sequences_.all()) {
    if (s.state == sequence_state::ended || sequences_.fits(s.ids.size()))
      continue;
    const error why = fail_param(errc::context_length_exceeded, "prompt",
                                 "the prompt of {} tokens needs {} KV blocks, the pipeline has {}",
                                 s.prompt_count, sequences_.blocks().needed(s.prompt_count),
                                 sequences_.blocks().total());
    if (!tickets_.at(s.id.ticket).has_begun)
      output_.refuse(s.id.ticket, why); // its other choices have the same prompt
    else if (s.output_count() > 0)
      output_.end_choice(s, output_.message_of(s), finish::length, std::nullopt, s.output_count());
    else
      output_.fail_choice(s, why);
  }
  sequences_.sweep();
}

// Fails the requests that have ended shards.
void scheduler::quarantine(kv_fate kv) {
  for (sequence* s : suspects_.judge(kv, sequences_)) {
    ++quarantined_;
    output_.fail_choice(
        *s, fail(errc::quarantined, "a step of this request ended a shard {} times", s->deaths));
  }
}

// Refuses embeddings admitted before the stages were known.
void scheduler::refuse_embeddings() {
  for (auto& [who, s] : sequences_.all())
    if (s.terms.wants_embedding && s.state != sequence_state::ended &&
        !context_.pipeline.shape.pools)
      output_.fail_choice(s, no_embeddings());
}

void scheduler::unload() {
  ENSURE(!is_open(), "an open pipeline is unloaded");
  context_.pipeline.closed_at.reset();
  context_.pipeline.why_closed.clear();
}

void scheduler::refuse_load(const error& why) {
  if (!context_.pipeline.is_unloaded())
    return; // it serves, or did a moment ago
  for (auto it = tickets_.all().begin(); it != tickets_.all().end();) {
    const auto& [id, t] = *it++; // the ticket may end below
    if (!t.is_suspended)
      output_.fail_ticket(id, finish::failed, why);
  }
  sequences_.sweep();
}

void scheduler::close_epoch(time_point since, std::string why) {
  auto& pipeline = context_.pipeline;
  if (!pipeline.epoch)
    return;
  pipeline.epoch.reset();
  pipeline.closed_at = since;
  pipeline.why_closed = std::move(why);
  for (const auto& [batch, f] : flights_.all())
    for (const part& p : f.parts)
      suspects_.note(p.of->service_order(), p.position, p.position + p.rows);
  flights_.close_epoch();
  sequences_.close_epoch();
}

} // namespace baton::schedule
