// State of the pipeline client's actor. pipeline_client.cpp has the normal path of a request;
// pipeline_failover.cpp handles the loss of a head or of a pipeline.
#pragma once

#include "gateway/base/outage.hpp"
#include "gateway/dispatch/request_tracker.hpp"
#include "gateway/metrics/rising_count.hpp"

#include <functional>
#include <utility>

namespace baton::gateway {

struct pipeline_client_state {
  static inline const char* name = "pipeline_client";

  pipeline_client_config config;
  pipeline_client_actor::stateful_pointer<pipeline_client_state> self = nullptr;
  std::unordered_map<std::uint64_t, open_entry> open;
  pushed_streams pushed;
  gateway::outage outage;
  load_totals totals;              // over all incarnations of the head
  incarnation_id head_incarnation; // as of the last link to it
  time_point head_lost_at;

  gateway_state& facts() { return *config.state; }
  gateway::metrics& counts() { return config.state->metrics(); }
  time_point now() { return self->clock().now(); }
  process_id process() { return config.state->config().self; }
  process_id head() { return config.state->config().pipelines.at(config.pipeline).head; }
  void change(const std::function<void(pipeline_view&)>& edit) {
    facts().change([&](snapshot& s) { edit(s.pipelines.at(config.pipeline)); });
  }

  void start(open_generate& m);
  void start(open_resume& m);
  void enter(open_entry entry);
  void ask_head(open_entry& entry);
  template <class Question> // tokenize or detokenize
  void ask(std::shared_ptr<stream> out, std::shared_ptr<quota_lease> lease, trace_handle trace,
           const Question& m);
  void close(const close_request& m);
  open_entry* find_later(std::uint64_t request, ticket_id ticket);
  void on_recovered(const reserve& m);
  void on_recovered(submit& m);
  void on_granted(const granted& m);
  bool on_migrated(open_entry& entry, const granted& m);
  void note_resumed(const open_entry& entry, std::string_view why);
  void on_rejected(const rejected& m);
  void on_chunk(chunk& m);
  template <class Answer>
  void on_answer(Answer& m);
  void on_tick();
  void end_late();
  void migrate_streams();
  void trace_recovery(const model_card& m);
  void on_card(const model_card& m);
  void on_head_lost(const actors::peer_down& m);
  void on_head_up(const actors::peer_up& m);
  void on_head_back();
  bool hand_over(std::uint64_t request, const rejected& why);
  void take_over(open_entry entry);
  void release_left_ticket(open_entry& entry);
  void on_ticket_left(const ticket_left& m);

  void cancel_ticket(ticket_id ticket, cancel_reason why) {
    cancel c;
    c.ticket = ticket;
    c.why = why;
    self->send(config.scheduler, std::move(c));
  }
  void erase(std::uint64_t request) {
    if (const auto it = open.find(request); it != open.end()) {
      release_left_ticket(it->second);
      open.erase(it);
      facts().leave();
    }
  }
  bool deliver(open_entry& entry, stream_event e);
};

} // namespace baton::gateway
