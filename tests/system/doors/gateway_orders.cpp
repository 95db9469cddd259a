#include "tests/system/doors/gateway_orders.hpp"

#include "tests/support/fake_head.hpp"
#include "tests/system/doors/allocation_limit.hpp"

#include <spdlog/spdlog.h>

#include <sstream>

namespace baton::tests {
namespace {

// Returns once the pipeline client has handled the message: a request sent next sees its effect.
template <class Message>
void deliver(const gateway::router_and_clients& all, std::size_t pipeline, Message&& m) {
  constexpr std::chrono::seconds handle_timeout{20};
  const auto& to = all.pipeline_clients.at(pipeline);
  caf::scoped_actor self(to->home_system());
  self->request(to, handle_timeout, std::forward<Message>(m))
      .receive([] {},
               [](const caf::error& e) {
                 spdlog::error("a pipeline client handles no order: {}", caf::to_string(e));
               });
}

// Every pipeline client receives every peer's events.
void lose_head(const gateway::router_and_clients& all, std::size_t pipeline) {
  for (std::size_t i = 0; i < all.pipeline_clients.size(); ++i) {
    deliver(all, i,
            actors::peer_down{head_process(pipeline), incarnation_id{1}, "told to be down"});
  }
}

// As the root reports them: the second shard of a pipeline is still loading.
cluster_status with_shards(std::size_t pipelines, std::uint32_t count) {
  cluster_status now;
  now.phase = phase::ready;
  for (std::size_t p = 0; p < pipelines; ++p) {
    for (std::uint32_t i = 0; i < count; ++i) {
      status shard;
      shard.role = role::shard;
      shard.name = p == 0 ? fmt::format("shard-{}", i) : fmt::format("shard-{}.{}", p, i);
      shard.phase = i == 1 ? phase::loading : phase::ready;
      shard.pid = static_cast<std::int32_t>(1000 + 100 * p + i);
      now.nodes.push_back(std::move(shard));
    }
  }
  return now;
}

} // namespace

process_id head_process(std::size_t pipeline) {
  return process_id{static_cast<std::uint32_t>(2 + pipeline)};
}

void obey(const std::string& line, const gateway::router_and_clients& all,
          const std::vector<std::string>& models) {
  std::istringstream words(line);
  std::string order, value;
  words >> order;
  if (order == "phase" || order == "waiting" || order == "shards" || order == "allocations") {
    words >> value;
  }
  std::size_t pipeline = 0;
  words >> pipeline;
  auto card = fake_card(models.at(pipeline));
  if (order == "drain") {
    deliver(all, pipeline, drain{std::chrono::seconds(1)});
  } else if (order == "shards") {
    deliver(all, pipeline,
            with_shards(models.size(), static_cast<std::uint32_t>(std::stoul(value))));
  } else if (order == "allocations") {
    limit_allocations(std::stoul(value));
  } else if (order == "head_down") {
    lose_head(all, pipeline);
  } else if (order == "head_up") {
    deliver(all, pipeline, card);
  } else if (order == "phase") {
    for (int i = 1; i <= 7; ++i) {
      const auto p = static_cast<phase>(i);
      if (gateway::name_of(p) == value) {
        card.phase = p;
      }
    }
    card.reason = "told so";
    deliver(all, pipeline, card);
  } else if (order == "waiting") {
    load_report load;
    load.model = card.name;
    load.waiting = static_cast<std::uint32_t>(std::stoul(value));
    deliver(all, pipeline, load);
  }
}

} // namespace baton::tests
