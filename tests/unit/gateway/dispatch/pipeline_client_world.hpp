// A pipeline client under CAF's testing scheduler: its messages to scheduler and tokenizer, and its
// events for streams. No threads, no sockets; time is moved by hand.
#pragma once

#include "gateway/dispatch/pipeline_client.hpp"
#include "gateway/dispatch/request_tracker.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

namespace baton::gateway::at_pipeline_client {

struct received {
  std::vector<reserve> reserves;
  std::vector<cancel> cancels;
  std::vector<resume> resumes;
  std::vector<submit> submits;
  std::vector<tokenize> tokenizes;
  std::vector<detokenize> detokenizes;
};

struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

// CAF 0.17 asserts on a spawn without arguments: the log is one.
inline actors::scheduler_actor spawn_scheduler(caf::actor_system& system,
                                               std::shared_ptr<received> log) {
  return system.spawn(
      [](std::shared_ptr<received> l) -> actors::scheduler_actor::behavior_type {
        return {[l](const reserve& m) { l->reserves.push_back(m); },
                [](const admit&) {},
                [l](const cancel& m) { l->cancels.push_back(m); },
                [l](const resume& m) { l->resumes.push_back(m); },
                [](const sampled&) {},
                [](const stage_ready&) {},
                [](const epoch_opened&) {},
                [](const generations&) {},
                [](const load_refused&) {},
                [](const actors::peer_up&) {},
                [](const actors::peer_down&) {},
                [](const drain&) {},
                [](const actors::tick&) {}};
      },
      log);
}

inline actors::tokenizer_actor spawn_tokenizer(caf::actor_system& system,
                                               std::shared_ptr<received> log) {
  return system.spawn(
      [](std::shared_ptr<received> l) -> actors::tokenizer_actor::behavior_type {
        return {[l](const submit& m) { l->submits.push_back(m); },
                [l](const tokenize& m) { l->tokenizes.push_back(m); },
                [l](const detokenize& m) { l->detokenizes.push_back(m); }};
      },
      log);
}

struct world {
  testing_config options;
  caf::actor_system system{options};
  caf::scheduler::test_coordinator& time =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<received> log = std::make_shared<received>();
  std::shared_ptr<gateway_state> facts;
  actors::scheduler_actor scheduler = spawn_scheduler(system, log);
  actors::tokenizer_actor tokenizer = spawn_tokenizer(system, log);
  pipeline_client_actor to;

  explicit world(std::string otlp_endpoint = {}) {
    gateway_config config;
    config.otlp_endpoint = std::move(otlp_endpoint);
    config.self = process_id{1};
    config.pipelines = {{process_id{2}, "m"}};
    config.stream_buffer_max_bytes = 4096;
    facts = std::make_shared<gateway_state>(config);
    to = spawn_pipeline_client(system, pipeline_client_config{scheduler, tokenizer, facts});
    model_card card;
    card.name = "m";
    card.max_model_len = 100;
    card.phase = phase::ready;
    deliver(card);
  }
  ~world() {
    for (const auto& a :
         {caf::actor_cast<caf::actor>(scheduler), caf::actor_cast<caf::actor>(tokenizer),
          caf::actor_cast<caf::actor>(to)}) {
      caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    }
    time.run();
  }
  void head_is_back(const char* model = "m") {
    model_card again;
    again.name = model;
    again.phase = phase::ready;
    deliver(again);
  }
  template <class T>
  void deliver(T m) {
    if constexpr (std::is_same_v<T, chunk>)
      caf::anon_send(to, chunks{{std::move(m)}, {}});
    else
      caf::anon_send(to, std::move(m));
    time.run();
  }
  std::shared_ptr<stream> new_stream() {
    REQUIRE(facts->enter());
    return std::make_shared<stream>(facts->next_number(), 4096, nullptr);
  }
  std::shared_ptr<stream> open(std::uint32_t choices = 1) {
    auto out = new_stream();
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    g.terms.choices = choices;
    deliver(open_generate{out, g, true});
    return out;
  }
  void lose_head() {
    deliver(actors::peer_down{process_id{2}, incarnation_id{1}, "killed"});
    head_is_back();
  }
  // The restarted head has no log of this stream's ticket.
  void lose_head_and_log(const stream& out) {
    lose_head();
    rejected no;
    no.request = out.number();
    no.ticket = ticket_id{77};
    no.reason = fail(errc::ticket_not_found, "a new life");
    deliver(no);
  }
  std::shared_ptr<stream> open_granted(std::uint32_t choices = 1) {
    auto out = open(choices);
    deliver(granted{out->number(), ticket_id{77}, epoch_id{1}, log->reserves.back().resume_key});
    CHECK(std::holds_alternative<granted>(*out->next()));
    return out;
  }
};

inline chunk chunk_for(const stream& s, std::uint32_t index, std::uint32_t count,
                       finish how = finish::none) {
  chunk c;
  c.request = s.number();
  c.ticket = ticket_id{77};
  c.index = index;
  c.count = count;
  c.text = "t" + std::to_string(index);
  c.finish = how;
  return c;
}

} // namespace baton::gateway::at_pipeline_client
