// The state of several pipelines, of one model or two: readiness, models, queue length. With one
// pipeline the output is the same as before.
#include "gateway/base/snapshot.hpp"
#include "gateway/routes/status_response.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/state/refusal.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <thread>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

model_card card_of(std::string name, phase p, std::string reason = {}) {
  model_card card;
  card.name = std::move(name);
  card.phase = p;
  card.reason = std::move(reason);
  return card;
}

// Two pipelines of "a", one of "b"; all ready.
snapshot three() {
  snapshot s;
  s.pipelines.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    s.pipelines[i].model = i < 2 ? "a" : "b";
    s.pipelines[i].card = card_of(s.pipelines[i].model, phase::ready);
  }
  return s;
}

void lose(pipeline_view& p) {
  p.is_head_lost = true;
  p.head_lost_why = "killed";
}

} // namespace

TEST_CASE("all heads are known once each has sent its card, or is away") {
  snapshot s;
  s.pipelines.resize(2);
  CHECK_FALSE(knows_all_heads(s));
  s.pipelines[0].card = model_card{};
  CHECK_FALSE(knows_all_heads(s));
  s.pipelines[1].is_head_lost = true;
  CHECK(knows_all_heads(s));
}

TEST_CASE("a head that is not ready is known before it sends its card") {
  snapshot s;
  s.cluster = cluster_status{};
  status head;
  head.role = role::head;
  head.phase = phase::ready;
  s.cluster->nodes = {head};
  CHECK_FALSE(knows_all_heads(s));
  s.cluster->nodes[0].phase = phase::loading;
  CHECK(knows_all_heads(s));
  s.cluster.reset();
  s.pipelines[0].head = head;
  CHECK_FALSE(knows_all_heads(s));
  s.pipelines[0].head->phase = phase::starting;
  CHECK(knows_all_heads(s));
}

TEST_CASE("a head whose shards load is awaited until its card says that they are ready") {
  snapshot s;
  s.pipelines.resize(2);
  CHECK_FALSE(awaits_head(s)); // nothing is known of them
  status head;
  head.role = role::head;
  head.phase = phase::loading;
  s.cluster = cluster_status{};
  s.cluster->nodes = {head};
  CHECK(awaits_head(s));
  s.pipelines[0].card = card_of("a", phase::loading);
  s.pipelines[1].card = card_of("b", phase::ready);
  CHECK(awaits_head(s)); // what the card says counts, not what the root says
  s.pipelines[0].card->loads_on_demand = true;
  CHECK_FALSE(awaits_head(s)); // its next request loads it
  s.pipelines[0].card->loads_on_demand = false;
  for (const auto p : {phase::ready, phase::recovering, phase::draining, phase::failed}) {
    s.pipelines[0].card->phase = p;
    CHECK_FALSE(awaits_head(s));
  }
  s.pipelines[0].card->phase = phase::loading;
  lose(s.pipelines[0]);
  CHECK_FALSE(awaits_head(s));
  s.pipelines[1].card.reset();
  s.cluster.reset();
  CHECK_FALSE(awaits_head(s));
  s.pipelines[1].head = head;
  CHECK(awaits_head(s));
}

TEST_CASE("without an LLM all is ready, and no model is found") {
  snapshot s;
  s.pipelines.clear();
  CHECK(standing_of(s).phase == phase::ready);
  CHECK(knows_all_heads(s));
  CHECK_FALSE(awaits_head(s));
  CHECK(find_model(s, {}, "a").error().code == errc::model_not_found);
  CHECK(find_model(s, {}, "").error().code == errc::model_not_found);
  CHECK(waiting_for(s, "a") == 0);
  CHECK_FALSE(first_of(s).load);
  CHECK(models_of(s).empty());
  CHECK(json::parse(load_body(s, 0))["scheduler"].is_null());
  CHECK(json::parse(cluster_body(s, 0))["pipelines"].empty());
  s.cluster.emplace();
  s.cluster->phase = phase::failed;
  s.cluster->reason = "the gateway";
  CHECK(standing_of(s).phase == phase::failed);
  s.is_draining = true;
  CHECK(find_model(s, {}, "a").error().code == errc::draining);
}

TEST_CASE("all is ready while each model has a ready pipeline") {
  auto s = three();
  CHECK(standing_of(s).phase == phase::ready);
  lose(s.pipelines[0]);
  CHECK(standing_of(s).phase == phase::ready);
  CHECK(find_model(s, {}, "a"));
  s.pipelines[1].card->phase = phase::loading;
  s.pipelines[1].card->reason = "stage 1 of 2";
  CHECK(standing_of(s).phase == phase::recovering);
  CHECK(standing_of(s).reason == "the model 'a' is not served: the head is down: killed");
  CHECK(find_model(s, {}, "a").error().code == errc::not_ready);
  CHECK(find_model(s, {}, "b"));
  s.pipelines[0].is_head_lost = false;
  lose(s.pipelines[2]);
  CHECK(standing_of(s).reason == "the model 'b' is not served: the head is down: killed");
  CHECK(find_model(s, {}, "b").error().message ==
        "the model is recovering: the head is down: killed");
}

TEST_CASE("for a model that is not served, the pipeline that may still start gives the reason") {
  auto s = three();
  s.pipelines[0].card = card_of("a", phase::failed, "another model file");
  s.pipelines[1].card = card_of("a", phase::loading, "waiting for the shards");
  CHECK(standing_of(s).phase == phase::loading);
  CHECK(find_model(s, {}, "a").error().message == "the model is loading: waiting for the shards");
}

TEST_CASE("a supervisor that gave up ends one pipeline alone, not several") {
  auto s = three();
  s.cluster.emplace().phase = phase::failed;
  s.cluster->reason = "shard-0 is in a crash loop";
  CHECK(standing_of(s).phase == phase::ready);
  s.pipelines[2].card->phase = phase::recovering;
  CHECK(standing_of(s).reason == "the model 'b' is not served: shard-0 is in a crash loop");
  s.pipelines.resize(1);
  CHECK(standing_of(s).phase == phase::failed);
  CHECK(standing_of(s).reason == "shard-0 is in a crash loop");
}

TEST_CASE("models are listed once, and found by name; the first one also by its alias") {
  auto s = three();
  s.pipelines[0].card.reset();
  const auto models = models_of(s);
  REQUIRE(models.size() == 2);
  CHECK(models[0].name == "a");
  CHECK(models[1].name == "b");
  CHECK(find_model(s, {"gpt"}, "")->name == "a");
  CHECK(find_model(s, {"gpt"}, "gpt")->name == "a");
  CHECK(find_model(s, {"gpt"}, "b")->name == "b");
  const auto unknown = find_model(s, {"gpt"}, "c");
  CHECK(unknown.error().code == errc::model_not_found);
  CHECK(unknown.error().message == "the model 'c' does not exist; this server has 'a' and 'b'");
  CHECK(model_of(s, ticket_id{64 * 7 + 2}) == "b");
  CHECK(model_of(s, ticket_id{64 * 7 + 3}).empty());
}

TEST_CASE("of a model's cards, that of a serving pipeline is used") {
  auto s = three();
  s.pipelines[0].card = card_of("a", phase::loading);
  s.pipelines[1].card->max_model_len = 7;
  CHECK(models_of(s)[0].max_model_len == 7);
  CHECK(find_model(s, {}, "a")->max_model_len == 7);
}

TEST_CASE("before the first card the server is not ready, for any model") {
  snapshot s;
  s.pipelines.resize(2);
  s.pipelines[0].model = "a";
  s.pipelines[1].model = "b";
  const auto why = find_model(s, {}, "c").error();
  CHECK(why.code == errc::not_ready);
  CHECK(why.message == "the server is starting: the model 'a' is not served: waiting for the "
                       "head's model card");
  CHECK(models_of(s).empty());
}

TEST_CASE("a refusal has the shortest queue of its model") {
  auto s = three();
  const auto full = fail(errc::overloaded, "full");
  CHECK(refuse_here(full, s, "a").queue_position == 0);
  for (std::uint32_t i = 0; i < 3; ++i) {
    s.pipelines[i].load.emplace().waiting = 12 - 3 * i;
  }
  CHECK(refuse_here(full, s, "a").queue_position == 9);
  CHECK(refuse_here(full, s, "b").queue_position == 6);
  CHECK(refuse_here(full, s).queue_position == 9); // as the first model's
}

TEST_CASE("/load and /cluster list each of several pipelines; with one the format is unchanged") {
  auto s = three();
  lose(s.pipelines[1]);
  s.pipelines[0].load.emplace().running = 3;
  s.pipelines[2].load.emplace().running = 5;
  for (const auto& body : {load_body(s, 4), cluster_body(s, 4)}) {
    const auto parsed = json::parse(body)["pipelines"];
    REQUIRE(parsed.size() == 3);
    CHECK(parsed[1] == json{{"pipeline", 1},
                            {"model", "a"},
                            {"phase", "recovering"},
                            {"reason", "the head is down: killed"},
                            {"scheduler", nullptr}});
    CHECK(parsed[2]["scheduler"]["running"] == 5);
  }
  CHECK(json::parse(load_body(s, 4))["scheduler"]["running"] == 3);
  CHECK(json::parse(cluster_body(s, 4))["load"]["running"] == 3);
  CHECK(json::parse(cluster_body(s, 4))["models"].size() == 2);
  s.pipelines.resize(1);
  CHECK_FALSE(json::parse(load_body(s, 4)).contains("pipelines"));
  CHECK_FALSE(json::parse(cluster_body(s, 4)).contains("pipelines"));
}

TEST_CASE("concurrent writes of pipeline clients are not lost") {
  gateway_config config;
  config.pipelines = {{process_id{2}, "a"}, {process_id{3}, "a"}};
  gateway_state facts(config);
  const auto write = [&facts](std::size_t pipeline) {
    for (int i = 0; i < 2000; ++i) {
      facts.change([pipeline](snapshot& s) { ++s.pipelines[pipeline].losses; });
    }
  };
  std::thread other(write, 1);
  write(0);
  other.join();
  CHECK(facts.look()->pipelines[0].losses == 2000);
  CHECK(facts.look()->pipelines[1].losses == 2000);
}

TEST_CASE("a model that its next request loads takes requests, and the server is ready") {
  auto s = three();
  auto& card = *s.pipelines[2].card;
  for (const auto now : {phase::unloaded, phase::loading}) {
    card.phase = now;
    card.loads_on_demand = true;
    CHECK(standing_of(s).phase == phase::ready);
    CHECK(is_available(s.pipelines[2]));
    CHECK_FALSE(is_ready(s.pipelines[2]));
    CHECK_FALSE(is_served(s, "b")); // not loaded
    REQUIRE(find_model(s, {}, "b"));
    CHECK(find_model(s, {}, "b")->phase == now);
    card.loads_on_demand = false; // scaled to nothing, or not loaded yet
    CHECK(standing_of(s).phase == now);
    CHECK_FALSE(find_model(s, {}, "b"));
  }
  card.loads_on_demand = true;
  lose(s.pipelines[2]);
  CHECK_FALSE(is_available(s.pipelines[2]));
}
