#include "gateway/dispatch/request_router.hpp"

#include "actors/actor_faults.hpp"
#include "gateway/dispatch/request_tracker.hpp"
#include "gateway/dispatch/routing_policy.hpp"
#include "schema/ensure.hpp"

#include <utility>

namespace baton::gateway {

// Sent once, before anything else: pipeline clients are spawned with the router's handle.
struct clients_of_router {
  std::vector<pipeline_client_actor> all;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::clients_of_router)

namespace baton::gateway {
namespace {

using extended_router_actor =
    request_router_actor::extend<caf::reacts_to<handover>, caf::reacts_to<ticket_left>,
                                 caf::reacts_to<clients_of_router>>;

route_query query_of(const generate& g) {
  return {g.model, g.input, g.terms.cache_salt, g.terms.choices};
}

route_query query_of(const open_entry& entry) {
  return {entry.model(), entry.submit.input, entry.submit.terms.cache_salt, entry.reserve.choices};
}

struct request_router_state {
  static inline const char* name = "request_router";

  std::shared_ptr<gateway_state> facts;
  routing_policy routes{1, {}};
  std::vector<pipeline_client_actor> pipeline_clients;
  extended_router_actor::stateful_pointer<request_router_state> self = nullptr;

  void start(open_generate& m) {
    const auto now = facts->look();
    const auto& g = m.request;
    const auto to = g.request_id.empty() ? routes.choose(*now, query_of(g))
                                         : route{route_by_name(*now, g.model, g.request_id),
                                                 route_reason::request_id};
    count(to, g.model);
    m.inflight = facts->inflight().take(to.pipeline, g.terms.choices);
    self->send(pipeline_clients.at(to.pipeline), std::move(m));
  }

  void start(open_resume& m) {
    // A single pipeline is always asked: it knows best which tickets are its own.
    const auto now = facts->look();
    const auto pipeline = pipeline_clients.size() == 1 ? 0u : pipeline_of(m.ticket);
    if (pipeline >= pipeline_clients.size() ||
        (pipeline_clients.size() > 1 && model_of(*now, m.ticket) != m.model)) {
      refuse(*m.out, m.trace,
             {.request = 0,
              .ticket = m.ticket,
              .reason = fail(errc::ticket_not_found,
                             "there is no stream of ticket {} to resume: no pipeline of the "
                             "model '{}' has granted it",
                             m.ticket.value, m.model),
              .retry_after = {},
              .queue_position = 0});
      return;
    }
    count({pipeline, route_reason::resume}, m.model);
    m.inflight = facts->inflight().take(pipeline, static_cast<std::uint32_t>(m.from.size()));
    self->send(pipeline_clients.at(pipeline), std::move(m));
  }

  template <class Question> // open_tokenize or open_detokenize
  void ask(Question& m) {
    self->send(pipeline_clients.at(routes.any_of(*facts->look(), m.model)), std::move(m));
  }

  void close(const close_request& m) {
    for (const auto& pipeline_client : pipeline_clients) {
      self->send(pipeline_client, m);
    }
  }

  // A migrating request returns to its old pipeline if no other is ready.
  void move(handover& m) {
    auto& entry = *m.entry;
    const auto to = routes.choose_other(*facts->look(), query_of(entry), entry.tried);
    if (!to && !entry.left_ticket) {
      refuse(*entry.out, entry.trace, std::move(m.why));
      return;
    }
    const auto pipeline = to ? to->pipeline : pipeline_of(entry.left_ticket);
    if (to) {
      count({pipeline, entry.left_ticket ? route_reason::moved : to->why}, entry.model());
    }
    entry.inflight = facts->inflight().take(pipeline, entry.reserve.choices);
    self->send(pipeline_clients.at(pipeline), std::move(m));
  }

  void forward(const ticket_left& m) { self->send(pipeline_clients.at(pipeline_of(m.ticket)), m); }

  void refuse(stream& out, const trace_handle& trace, rejected no) {
    no.request = out.number();
    if (trace) {
      trace->data.failed_by(no.reason.code, self->clock().now());
    }
    out.push(std::move(no));
    out.wake_reader();
    facts->leave();
  }

  void count(const route& to, const std::string& model) {
    if (pipeline_clients.size() > 1) {
      facts->metrics().routed(to.pipeline, model, name_of(to.why));
    }
  }
};

extended_router_actor::behavior_type
request_router(extended_router_actor::stateful_pointer<request_router_state> self,
               std::shared_ptr<gateway_state> facts) {
  actors::install_fault_handlers(self);
  auto& state = self->state;
  state.routes = routing_policy(facts->config().pipelines.size(), facts->inflight());
  state.facts = std::move(facts);
  state.self = self;
  return {
      [self](open_generate& m) { self->state.start(m); },
      [self](open_resume& m) { self->state.start(m); },
      [self](open_tokenize& m) { self->state.ask(m); },
      [self](open_detokenize& m) { self->state.ask(m); },
      [self](const close_request& m) { self->state.close(m); },
      [self](handover& m) { self->state.move(m); },
      [self](const ticket_left& m) { self->state.forward(m); },
      [self](const clients_of_router& m) { self->state.pipeline_clients = m.all; },
  };
}

} // namespace

router_and_clients spawn_request_router(caf::actor_system& system,
                                        std::shared_ptr<gateway_state> facts,
                                        const std::vector<head_actors>& heads) {
  ENSURE(heads.size() == facts->config().pipelines.size(), "{} heads of {} pipelines", heads.size(),
         facts->config().pipelines.size());
  const auto made = system.spawn(request_router, facts);
  router_and_clients all{made, {}};
  for (std::uint32_t i = 0; i < heads.size(); ++i) {
    pipeline_client_config config{.scheduler = heads[i].scheduler,
                                  .tokenizer = heads[i].tokenizer,
                                  .state = facts,
                                  .pipeline = i};
    if (heads.size() > 1) {
      config.router = made;
    }
    all.pipeline_clients.push_back(spawn_pipeline_client(system, std::move(config)));
  }
  caf::anon_send(made, clients_of_router{all.pipeline_clients});
  return all;
}

} // namespace baton::gateway
