#include "gateway/dispatch/front.hpp"

#include "actors/actor_faults.hpp"
#include "gateway/dispatch/desk_state.hpp"
#include "gateway/dispatch/router.hpp"
#include "schema/ensure.hpp"

#include <utility>

namespace baton::gateway {

// Sent once, before anything else: pipeline clients are spawned with the router's handle.
struct desks_of_front {
  std::vector<desk_actor> all;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::desks_of_front)

namespace baton::gateway {
namespace {

using front_with_desks = front_actor::extend<caf::reacts_to<handover>, caf::reacts_to<ticket_left>,
                                             caf::reacts_to<desks_of_front>>;

route_question question_of(const generate& g) {
  return {g.model, g.input, g.cache_salt, g.choices};
}

route_question question_of(const open_entry& entry) {
  return {entry.model(), entry.submit.input, entry.submit.cache_salt, entry.reserve.choices};
}

struct front_state {
  static inline const char* name = "request_router";

  std::shared_ptr<board> facts;
  router routes{1, {}};
  std::vector<desk_actor> desks;
  front_with_desks::stateful_pointer<front_state> self = nullptr;

  void start(open_generate& m) {
    const auto now = facts->look();
    const auto& g = m.request;
    const auto to = g.request_id.empty() ? routes.choose(*now, question_of(g))
                                         : route{route_by_name(*now, g.model, g.request_id),
                                                 route_reason::request_id};
    count(to, g.model);
    m.seat = facts->seats().take(to.pipeline, g.choices);
    self->send(desks.at(to.pipeline), std::move(m));
  }

  void start(open_resume& m) {
    // A single pipeline is always asked: it knows best which tickets are its own.
    const auto now = facts->look();
    const auto pipeline = desks.size() == 1 ? 0u : pipeline_of(m.ticket);
    if (pipeline >= desks.size() || (desks.size() > 1 && model_of(*now, m.ticket) != m.model)) {
      refuse(*m.out, m.trace,
             {0,
              m.ticket,
              fail(errc::ticket_not_found,
                   "there is no stream of ticket {} to resume: no pipeline of the "
                   "model '{}' has granted it",
                   m.ticket.value, m.model),
              {},
              0});
      return;
    }
    count({pipeline, route_reason::resume}, m.model);
    m.seat = facts->seats().take(pipeline, static_cast<std::uint32_t>(m.from.size()));
    self->send(desks.at(pipeline), std::move(m));
  }

  template <class Question> // open_tokenize or open_detokenize
  void ask(Question& m) {
    self->send(desks.at(routes.any_of(*facts->look(), m.model)), std::move(m));
  }

  void close(const close_request& m) {
    for (const auto& desk : desks) {
      self->send(desk, m);
    }
  }

  // A migrating request returns to its old pipeline if no other is ready.
  void move(handover& m) {
    auto& entry = *m.entry;
    const auto to = routes.choose_other(*facts->look(), question_of(entry), entry.tried);
    if (!to && !entry.left) {
      refuse(*entry.out, entry.trace, std::move(m.why));
      return;
    }
    const auto pipeline = to ? to->pipeline : pipeline_of(entry.left);
    if (to) {
      count({pipeline, entry.left ? route_reason::moved : to->why}, entry.model());
    }
    entry.seat = facts->seats().take(pipeline, entry.reserve.choices);
    self->send(desks.at(pipeline), std::move(m));
  }

  void tell(const ticket_left& m) { self->send(desks.at(pipeline_of(m.ticket)), m); }

  void refuse(stream& out, const trace_handle& trace, rejected no) {
    no.request = out.number();
    if (trace) {
      trace->what.failed_by(no.reason.code, self->clock().now());
    }
    out.push(std::move(no));
    out.wake_door();
    facts->leave();
  }

  void count(const route& to, const std::string& model) {
    if (desks.size() > 1) {
      facts->metrics().routed(to.pipeline, model, name_of(to.why));
    }
  }
};

front_with_desks::behavior_type front(front_with_desks::stateful_pointer<front_state> self,
                                      std::shared_ptr<board> facts) {
  actors::install_fault_handlers(self);
  auto& state = self->state;
  state.routes = router(facts->config().pipelines.size(), facts->seats());
  state.facts = std::move(facts);
  state.self = self;
  return {
      [self](open_generate& m) { self->state.start(m); },
      [self](open_resume& m) { self->state.start(m); },
      [self](open_tokenize& m) { self->state.ask(m); },
      [self](open_detokenize& m) { self->state.ask(m); },
      [self](const close_request& m) { self->state.close(m); },
      [self](handover& m) { self->state.move(m); },
      [self](const ticket_left& m) { self->state.tell(m); },
      [self](const desks_of_front& m) { self->state.desks = m.all; },
  };
}

} // namespace

front_and_desks spawn_front(caf::actor_system& system, std::shared_ptr<board> facts,
                            const std::vector<head_actors>& heads) {
  ENSURE(heads.size() == facts->config().pipelines.size(), "{} heads of {} pipelines", heads.size(),
         facts->config().pipelines.size());
  const auto made = system.spawn(front, facts);
  front_and_desks all{made, {}};
  for (std::uint32_t i = 0; i < heads.size(); ++i) {
    desk_config config{heads[i].scheduler, heads[i].tokenizer, facts, i};
    if (heads.size() > 1) {
      config.front = made;
    }
    all.desks.push_back(spawn_desk(system, std::move(config)));
  }
  caf::anon_send(made, desks_of_front{all.desks});
  return all;
}

} // namespace baton::gateway
