// A request router with its pipeline clients under CAF's testing scheduler.
// pipeline_client_world.hpp has one pipeline client.
#pragma once

#include "gateway/dispatch/request_router.hpp"
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

#include <algorithm>
#include <optional>

namespace baton::gateway::at_pipeline_client {

struct request_router_world {
  testing_config options;
  caf::actor_system system{options};
  caf::scheduler::test_coordinator& time =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::vector<std::shared_ptr<received>> logs; // by pipeline
  std::vector<caf::actor> others;
  std::shared_ptr<gateway_state> facts;
  router_and_clients all;

  explicit request_router_world(const std::vector<std::string>& models) {
    gateway_config config;
    config.self = process_id{1};
    config.pipelines.clear();
    std::vector<head_actors> heads;
    for (std::uint32_t i = 0; i < models.size(); ++i) {
      config.pipelines.push_back({head_process(i), models[i]});
      const auto& log = logs.emplace_back(std::make_shared<received>());
      const auto& head = heads.emplace_back(
          head_actors{spawn_scheduler(system, log), spawn_tokenizer(system, log)});
      others.push_back(caf::actor_cast<caf::actor>(head.scheduler));
      others.push_back(caf::actor_cast<caf::actor>(head.tokenizer));
    }
    facts = std::make_shared<gateway_state>(config);
    all = spawn_request_router(system, facts, heads);
    time.run();
    for (std::uint32_t i = 0; i < models.size(); ++i) {
      report_ready(i);
    }
  }
  ~request_router_world() {
    others.push_back(caf::actor_cast<caf::actor>(all.router));
    for (const auto& pipeline_client : all.pipeline_clients) {
      others.push_back(caf::actor_cast<caf::actor>(pipeline_client));
    }
    for (const auto& a : others) {
      caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    }
    time.run();
  }
  static process_id head_process(std::uint32_t pipeline) { return process_id{20 + pipeline}; }
  void report_ready(std::uint32_t pipeline) {
    model_card card;
    card.name = facts->config().pipelines[pipeline].model;
    card.sequences_max = 8;
    card.max_model_len = 100;
    card.phase = phase::ready;
    deliver(pipeline, card);
  }
  template <class T>
  void deliver(std::uint32_t pipeline, T m) {
    caf::anon_send(all.pipeline_clients[pipeline], std::move(m));
    time.run();
  }
  template <class T>
  void ask(T m) {
    caf::anon_send(all.router, std::move(m));
    time.run();
  }
  // Reports it to all pipeline clients, as every process does to its peers.
  void lose(std::uint32_t pipeline) {
    for (std::uint32_t i = 0; i < all.pipeline_clients.size(); ++i) {
      deliver(i, actors::peer_down{head_process(pipeline), incarnation_id{1}, "killed"});
    }
  }
  std::shared_ptr<stream> new_stream() {
    REQUIRE(facts->enter());
    return std::make_shared<stream>(facts->next_number(), 4096, nullptr);
  }
  std::shared_ptr<stream> open(std::string text, const std::string& model = "m",
                               std::string request_id = {}) {
    auto out = new_stream();
    generate g;
    g.model = model;
    g.input = std::move(text);
    g.request_id = std::move(request_id);
    ask(open_generate{out, g, true});
    return out;
  }
  // The last pipeline that received this request.
  std::optional<std::uint32_t> where(const stream& s) const {
    std::optional<std::uint32_t> found;
    for (std::uint32_t i = 0; i < logs.size(); ++i) {
      const auto& given = logs[i]->reserves;
      if (std::any_of(given.begin(), given.end(),
                      [&](const reserve& r) { return r.request == s.number(); })) {
        CHECK_FALSE(found);
        found = i;
      }
    }
    return found;
  }
  std::size_t reserves(std::uint32_t pipeline) const { return logs[pipeline]->reserves.size(); }
  void grant(std::uint32_t pipeline, const stream& s, ticket_id ticket) {
    const auto& asked = logs[pipeline]->reserves;
    deliver(pipeline,
            granted{s.number(), ticket, epoch_id{1}, asked.empty() ? 0 : asked.back().resume_key});
  }
  void refuse(std::uint32_t pipeline, const stream& s, errc code) {
    rejected no;
    no.request = s.number();
    no.reason = fail(code, "told to by {}", pipeline);
    deliver(pipeline, no);
  }
  std::string metrics() const { return facts->metrics().text(*facts->look(), 0, {}); }
};

} // namespace baton::gateway::at_pipeline_client
