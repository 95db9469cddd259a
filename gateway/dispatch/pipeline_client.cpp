#include "gateway/dispatch/pipeline_client.hpp"

#include "actors/actor_faults.hpp"
#include "gateway/dispatch/pipeline_client_state.hpp"

#include <random>
#include <utility>

namespace baton::gateway {

// False: the stream was cut and its ticket is cancelled; the caller must erase the entry.
bool pipeline_client_state::deliver(open_entry& entry, stream_event e) {
  if (entry.trace) {
    entry.trace->data.take(e, now());
  }
  pushed.add(entry.out);
  if (entry.out->push(std::move(e))) {
    return true;
  }
  counts().dropped("slow_reader");
  if (entry.trace) {
    entry.trace->data.cut_off(errc::slow_reader, now());
  }
  if (entry.ticket()) {
    cancel_ticket(entry.ticket(), cancel_reason::slow_reader);
  }
  return false;
}

void pipeline_client_state::start(open_generate& m) {
  const auto facts_now = facts().look();
  const auto& card = facts_now->pipelines.at(config.pipeline).card;
  auto entry = entry_of(m, card ? card->max_model_len : 0);
  entry.submit.terms.deadline =
      sooner(entry.submit.terms.deadline, facts().config().request_deadline);
  entry.submit.parses_special = facts().config().parses_special_tokens;
  entry.reserve.resume_key = config.next_key();
  enter(std::move(entry));
}

void pipeline_client_state::start(open_resume& m) {
  enter(entry_of(m));
}

// Asks the head for the answer that the entry waits for, if any.
void pipeline_client_state::ask_head(open_entry& entry) {
  entry.asked_at = now();
  if (entry.phase == request_phase::resuming) {
    self->send(config.scheduler, resume_of(entry));
  } else if (entry.phase == request_phase::reserving) {
    self->send(config.scheduler, entry.reserve);
  }
}

void pipeline_client_state::enter(open_entry entry) {
  if (entry.opened_at == time_point()) {
    entry.opened_at = now();
  }
  entry.reserve.gateway = entry.submit.gateway = process();
  ask_head(entry);
  const auto number = entry.reserve.request;
  open.emplace(number, std::move(entry));
}

template <class Question>
void pipeline_client_state::ask(std::shared_ptr<stream> out, std::shared_ptr<quota_lease> lease,
                                trace_handle trace, const Question& m) {
  open_entry entry;
  entry.out = std::move(out);
  entry.lease = std::move(lease);
  entry.trace = std::move(trace);
  entry.phase = request_phase::asking;
  entry.opened_at = entry.asked_at = now();
  open.emplace(m.request, std::move(entry));
  self->send(config.tokenizer, m);
}

void pipeline_client_state::close(const close_request& m) {
  const auto it = open.find(m.request);
  if (it == open.end()) {
    return; // it ended while the client disconnected
  }
  auto& entry = it->second;
  if (entry.trace) {
    entry.trace->data.left(m.why, now());
    entry.trace.reset();
  }
  if (entry.phase == request_phase::reserving) {
    entry.phase = request_phase::leaving; // the grant is on its way: cancel it on arrival
    release_left_ticket(entry);
    entry.out.reset();
    entry.submit = {};
    return;
  }
  if (entry.ticket()) {
    cancel_ticket(entry.ticket(), m.why);
  }
  if (entry.phase != request_phase::leaving) {
    erase(m.request);
  }
}

void pipeline_client_state::on_granted(const granted& m) {
  const auto it = open.find(m.request);
  if (it == open.end() || it->second.phase == request_phase::leaving) {
    cancel_ticket(m.ticket, cancel_reason::client_gone);
    erase(m.request);
    return;
  }
  auto& entry = it->second;
  if (entry.phase == request_phase::resuming) {
    entry.phase = request_phase::running;
    const bool is_news = !std::exchange(entry.has_client_grant, true);
    note_resumed(entry, is_news ? "client" : "link");
    if (is_news && !deliver(entry, m)) {
      erase(m.request);
    }
    return;
  }
  if (entry.phase != request_phase::reserving) {
    counts().dropped("granted");
    return;
  }
  entry.phase = request_phase::running;
  const bool is_again = entry.is_granted();
  entry.granted_at = entry.granted_at.value_or(now());
  entry.reserve.ticket = entry.submit.ticket = m.ticket;
  entry.reserve.resume_key = m.resume_key; // not ours if the request_id already has a ticket
  entry.has_client_grant = true;
  if (m.is_submitted) { // its client has sent this request_id before
    note_resumed(entry, "request_id");
    if (!deliver(entry, m)) {
      erase(m.request);
    }
    return;
  }
  if (is_again) {
    if (!entry.left_ticket) {
      note_resumed(entry, "head");
    } else if (!on_migrated(entry, m)) {
      return;
    }
    self->send(config.tokenizer, replay(entry, now()));
    return;
  }
  auto s = entry.submit; // kept for a new incarnation of the head
  if (!deliver(entry, m)) {
    erase(m.request);
    return;
  }
  self->send(config.tokenizer, std::move(s));
}

void pipeline_client_state::note_resumed(const open_entry& entry, std::string_view why) {
  counts().resumed(why);
  entry.note("resumed", why, now());
}

// Granted here for a stream of another pipeline: the client resumes with this ticket from now on.
// False: the request has ended.
bool pipeline_client_state::on_migrated(open_entry& entry, const granted& m) {
  counts().moved(pipeline_of(entry.left_ticket), entry.model());
  if (entry.trace) {
    entry.note(
        "moved",
        fmt::format("from pipeline {} to {}", pipeline_of(entry.left_ticket), config.pipeline),
        now());
  }
  release_left_ticket(entry);
  entry.reserve.was_admitted = false;
  if (deliver(entry, m)) {
    return true;
  }
  erase(m.request);
  return false;
}

// The grant may have come first: messages that need credit are overtaken by those that need none.
open_entry* pipeline_client_state::find_later(std::uint64_t request, ticket_id ticket) {
  const auto it = open.find(request);
  const bool fits = it != open.end() && !it->second.has_request && it->second.out &&
                    it->second.ticket() == ticket;
  return fits ? &it->second : nullptr;
}

// The head sends the original request of a ticket opened elsewhere, ahead of its grant.
void pipeline_client_state::on_recovered(const reserve& m) {
  if (auto* entry = find_later(m.request, m.ticket)) {
    entry->reserve = m;
  }
}

void pipeline_client_state::on_recovered(submit& m) {
  if (auto* entry = find_later(m.request, m.ticket)) {
    restore_request(*entry, std::move(m));
  }
}

void pipeline_client_state::on_rejected(const rejected& m) {
  const auto it = open.find(m.request);
  if (it == open.end()) {
    counts().dropped("rejected");
    return;
  }
  auto& entry = it->second;
  if (m.ticket && entry.is_granted() && m.ticket != entry.ticket()) {
    counts().dropped("rejected"); // an old ticket: granted over a lost link, or migrated
    return;
  }
  const bool is_unknown = entry.phase == request_phase::resuming && is_replayable(entry) &&
                          m.reason.code == errc::ticket_not_found;
  if (is_unknown) { // this head has no log of it
    entry.phase = request_phase::reserving;
    ask_head(entry);
    return;
  }
  if ((entry.left_ticket || is_for_head(m.reason.code)) && hand_over(m.request, m)) {
    return;
  }
  if (entry.out) {
    deliver(entry, m);
  }
  erase(m.request);
}

void pipeline_client_state::on_chunk(chunk& m) {
  const auto it = open.find(m.request);
  if (it == open.end() || it->second.phase != request_phase::running ||
      it->second.ticket() != m.ticket) {
    counts().dropped("chunk");
    return;
  }
  auto& entry = it->second;
  const auto verdict = judge(entry, m);
  if (verdict == chunk_verdict::duplicate) {
    counts().dropped("duplicate_chunk");
    return;
  }
  const auto number = m.request;
  if (verdict == chunk_verdict::gap) {
    counts().dropped("chunk_after_gap");
    entry.note("gap", "text between the head and the gateway was lost", now());
    if (++entry.gaps <= gaps_max) {
      // The head still has the text. Chunks that arrive before its answer are dropped and come
      // again.
      entry.phase = request_phase::resuming;
      ask_head(entry);
      return;
    }
    cancel_ticket(entry.ticket(), cancel_reason::client_gone);
    deliver(entry, failed{fail(errc::link_down, "text between the head and the gateway was lost")});
    erase(number);
    return;
  }
  record_tokens(counts(), config.pipeline, entry, m, now());
  record_usage(entry, m, now());
  const bool is_last = take_in(entry, m);
  if (is_last) {
    const auto facts_now = facts().look();
    const auto& card = facts_now->pipelines.at(config.pipeline).card;
    counts().request_ended(config.pipeline, entry.model(),
                           ended_as(entry, m.finish, now(), card ? card->max_model_len : 0));
  }
  const bool delivered = deliver(entry, std::move(m));
  if (is_last || !delivered) {
    erase(number);
  }
}

template <class Answer>
void pipeline_client_state::on_answer(Answer& m) {
  const auto it = open.find(m.request);
  if (it == open.end() || it->second.phase != request_phase::asking) {
    counts().dropped("answer");
    return;
  }
  const auto number = m.request;
  deliver(it->second, std::move(m));
  erase(number);
}

namespace {

// Runs the handler, then wakes each stream it pushed to once.
template <class Message, class Handle>
auto then_wake(pipeline_client_actor::stateful_pointer<pipeline_client_state> self, Handle handle) {
  return [self, handle](Message m) {
    handle(self->state, m);
    self->state.pushed.wake_readers();
  };
}

pipeline_client_actor::behavior_type
pipeline_client(pipeline_client_actor::stateful_pointer<pipeline_client_state> self,
                pipeline_client_config config) {
  actors::install_fault_handlers(self);
  auto& state = self->state;
  state.config = std::move(config);
  state.self = self;
  return {
      [self](const reserve& m) { self->state.on_recovered(m); },
      [self](submit& m) { self->state.on_recovered(m); },
      then_wake<const granted&>(self, [](auto& s, auto& m) { s.on_granted(m); }),
      then_wake<const rejected&>(self, [](auto& s, auto& m) { s.on_rejected(m); }),
      then_wake<chunks&>(self,
                         [](auto& s, auto& m) {
                           for (auto& c : m.all) {
                             s.on_chunk(c);
                           }
                         }),
      then_wake<tokenized&>(self, [](auto& s, auto& m) { s.on_answer(m); }),
      then_wake<detokenized&>(self, [](auto& s, auto& m) { s.on_answer(m); }),
      [self](const model_card& m) { self->state.on_card(m); },
      [self](const load_report& m) {
        self->state.change([&](pipeline_view& p) {
          p.load = m;
          p.totals = self->state.totals.take(m);
          p.open_then = self->state.facts().inflight().at(self->state.config.pipeline);
        });
      },
      [self](const cluster_status& m) { self->state.facts().take(m); },
      [self](const status& m) {
        if (m.role == role::head) {
          self->state.change([&](pipeline_view& p) { p.head = m; });
        }
      },
      [self](const drain&) { self->state.facts().begin_drain(); },
      then_wake<const actors::peer_up&>(self, [](auto& s, auto& m) { s.on_head_up(m); }),
      then_wake<const actors::peer_down&>(self, [](auto& s, auto& m) { s.on_head_lost(m); }),
      then_wake<const actors::tick&>(self, [](auto& s, auto&) { s.on_tick(); }),
      [self](open_generate& m) { self->state.start(m); },
      [self](open_resume& m) { self->state.start(m); },
      [self](open_tokenize& m) {
        self->state.ask(
            m.out, std::move(m.lease), std::move(m.trace),
            tokenize{.request = m.out->number(),
                     .gateway = self->state.process(),
                     .input = std::move(m.input),
                     .add_generation_prompt = m.add_generation_prompt,
                     .parses_special = self->state.facts().config().parses_special_tokens,
                     .tools = std::move(m.tools),
                     .template_options = std::move(m.template_options)});
      },
      [self](open_detokenize& m) {
        self->state.ask(m.out, std::move(m.lease), std::move(m.trace),
                        detokenize{m.out->number(), self->state.process(), std::move(m.ids)});
      },
      [self](const close_request& m) { self->state.close(m); },
      [self](handover& m) { self->state.take_over(std::move(*m.entry)); },
      [self](const ticket_left& m) { self->state.on_ticket_left(m); },
  };
}

} // namespace

std::uint64_t random_key() {
  static thread_local std::random_device entropy;
  return std::uniform_int_distribution<std::uint64_t>(1)(entropy);
}

pipeline_client_actor spawn_pipeline_client(caf::actor_system& system,
                                            pipeline_client_config config) {
  return system.spawn(pipeline_client, std::move(config));
}

} // namespace baton::gateway
