// The choice of a pipeline: by cached prefix, by load, in turn.
#include "gateway/dispatch/routing_policy.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace baton;
using namespace baton::gateway;

namespace {

struct fixture {
  snapshot now;
  inflight_counts inflight;
  std::multimap<std::uint32_t, inflight_lease> held;
  routing_policy routes;

  explicit fixture(std::size_t pipelines = 2, std::uint32_t slots = 8)
      : routes(pipelines, inflight) {
    now.pipelines.resize(pipelines);
    for (auto& p : now.pipelines) {
      p.model = "m";
      p.card.emplace().name = "m";
      p.card->phase = phase::ready;
      p.card->sequences_max = slots;
    }
  }
  route choose(const prompt& input, const std::string& salt = {}, std::uint32_t choices = 1) {
    const auto to = routes.choose(now, {"m", input, salt, choices});
    held.emplace(to.pipeline, inflight.take(to.pipeline, choices));
    return to;
  }
  // By others: ours have ended.
  void report(std::uint32_t pipeline, std::uint32_t running, std::uint32_t waiting = 0) {
    auto& p = now.pipelines[pipeline];
    p.load.emplace().running = running;
    p.load->waiting = waiting;
    held.erase(pipeline);
  }
  void report_idle() {
    for (std::uint32_t i = 0; i < now.pipelines.size(); ++i) {
      report(i, 0);
    }
  }
};

prompt prompt_of_blocks(char letter, std::size_t blocks) {
  return std::string(blocks * block_bytes, letter);
}

} // namespace

TEST_CASE("requests without a common prefix are spread, equals in turn") {
  fixture f(3);
  std::map<std::uint32_t, int> times;
  for (int i = 0; i < 9; ++i) {
    const auto to = f.choose(std::string("short"));
    CHECK(to.why == route_reason::load);
    ++times[to.pipeline];
  }
  CHECK(times == std::map<std::uint32_t, int>{{0, 3}, {1, 3}, {2, 3}});
  f.report_idle();
  const auto first = f.choose(std::string("short")).pipeline;
  f.report_idle();
  CHECK(f.choose(std::string("short")).pipeline == (first + 1) % 3);
}

TEST_CASE("a request goes to the lowest load, relative to the number of slots") {
  fixture f;
  f.report(0, 3, 1);
  f.report(1, 3);
  CHECK(f.choose(std::string("x")).pipeline == 1);
  f.now.pipelines[0].card->sequences_max = 80;
  CHECK(f.choose(std::string("x")).pipeline == 0);
}

TEST_CASE("requests open here count at once, with all their choices, and until they end") {
  fixture f;
  f.report(0, 0);
  f.report(1, 3);
  CHECK(f.choose(std::string("x"), {}, 4).pipeline == 0);
  CHECK(f.choose(std::string("x")).pipeline == 1);
  f.held.clear();
  CHECK(f.choose(std::string("x")).pipeline == 0);
}

TEST_CASE("of a head's reported load, only requests of other gateways are added") {
  fixture f;
  const auto first = f.choose(std::string("x"), {}, 4).pipeline;
  auto& p = f.now.pipelines[first];
  p.load.emplace().running = 4; // ours
  p.open_then = f.inflight.at(first);
  f.held.clear(); // they have ended since
  f.report(1 - first, 1);
  CHECK(f.choose(std::string("x")).pipeline == first);
  p.load->waiting = 3; // of other gateways
  CHECK(f.choose(std::string("x"), {}, 2).pipeline == 1 - first);
}

TEST_CASE("the pipeline with the prefix gets the rest, even out of turn") {
  fixture f(4);
  const auto home = f.choose(prompt_of_blocks('a', 4)).pipeline;
  for (int i = 0; i < 5; ++i) {
    f.report_idle();
    static_cast<void>(f.choose(prompt_of_blocks(static_cast<char>('b' + i), 4)));
    f.report_idle();
    const auto to =
        f.choose(std::get<std::string>(prompt_of_blocks('a', 4)) + std::string(600, 'x'));
    CHECK(to.pipeline == home);
    CHECK(to.why == route_reason::prefix);
  }
}

TEST_CASE("the longest match wins") {
  fixture f;
  const auto a = std::get<std::string>(prompt_of_blocks('a', 3));
  const auto first = f.choose(a).pipeline;
  f.report_idle();
  f.now.pipelines[first].card->phase = phase::recovering;
  const auto second = f.choose(a + std::string(block_bytes, 'b')).pipeline;
  CHECK(second != first);
  f.now.pipelines[first].card->phase = phase::ready;
  f.report_idle();
  CHECK(f.choose(a + std::string(4 * block_bytes, 'b')).pipeline == second);
}

TEST_CASE("a match of one block is too short") {
  fixture f;
  const auto first = f.choose(prompt_of_blocks('a', 1)).pipeline;
  f.report_idle();
  const auto to = f.choose(prompt_of_blocks('a', 1));
  CHECK(to.pipeline != first);
  CHECK(to.why == route_reason::load);
}

TEST_CASE("no request waits for a slot because of a prefix while another pipeline has one free") {
  fixture f;
  const auto home = f.choose(prompt_of_blocks('a', 4)).pipeline;
  f.report(home, 8);
  f.report(1 - home, 7);
  const auto to = f.choose(prompt_of_blocks('a', 4));
  CHECK(to.pipeline == 1 - home);
  CHECK(to.why == route_reason::load);
  f.report(home, 8);
  f.report(1 - home, 8); // it would wait there as well
  CHECK(f.choose(prompt_of_blocks('a', 4)).why == route_reason::prefix);
}

TEST_CASE("a prefix common to all requests spreads over all pipelines") {
  fixture f;
  f.report_idle();
  std::map<std::uint32_t, int> times;
  int by_prefix = 0;
  for (int i = 0; i < 12; ++i) {
    const auto to = f.choose(prompt_of_blocks('a', 4));
    ++times[to.pipeline];
    by_prefix += to.why == route_reason::prefix ? 1 : 0;
  }
  CHECK(by_prefix == 10); // except the first of each
  CHECK(std::abs(times[0] - times[1]) <= 2);
}

TEST_CASE("a pipeline that is not ready is chosen only if none of the model is") {
  fixture f;
  f.now.pipelines[0].is_head_lost = true;
  for (int i = 0; i < 3; ++i) {
    CHECK(f.choose(std::string("x")).pipeline == 1);
  }
  f.now.pipelines[1].card->phase = phase::recovering; // its queue is open
  CHECK(f.choose(std::string("x")).pipeline == 1);
  f.now.pipelines[1].card.reset();
  CHECK(f.choose(std::string("x")).pipeline < 2);
}

TEST_CASE("a head that was lost has no prefixes") {
  fixture f;
  const auto home = f.choose(prompt_of_blocks('a', 4)).pipeline;
  ++f.now.pipelines[home].losses;
  f.report_idle();
  CHECK(f.choose(prompt_of_blocks('a', 4)).why == route_reason::load);
}

TEST_CASE("an alternative is a ready pipeline that was not tried") {
  fixture f(3);
  const prompt input = std::string("x");
  const route_query q{"m", input, {}};
  pipeline_set tried;
  tried.set(0);
  f.now.pipelines[1].card->phase = phase::loading;
  CHECK(f.routes.choose_other(f.now, q, tried)->pipeline == 2);
  tried.set(2);
  CHECK_FALSE(f.routes.choose_other(f.now, q, tried));
}

TEST_CASE("requests go to pipelines of their own model; a single one needs no choice") {
  fixture f(3);
  f.now.pipelines[1].card->name = f.now.pipelines[1].model = "n";
  for (int i = 0; i < 4; ++i) {
    CHECK(f.choose(std::string("x")).pipeline != 1);
    CHECK(f.routes.choose(f.now, {"n", prompt_of_blocks('a', 4), {}}).why == route_reason::load);
    CHECK(f.routes.choose(f.now, {"n", prompt_of_blocks('a', 4), {}}).pipeline == 1);
  }
  CHECK(f.routes.any_of(f.now, "n") == 1);
  CHECK(f.routes.any_of(f.now, "m") != 1);
}

TEST_CASE("a name always gets the same pipeline, and names are spread") {
  fixture f(3);
  std::map<std::uint32_t, int> times;
  for (int i = 0; i < 60; ++i) {
    const auto name = "order " + std::to_string(i);
    const auto to = route_by_name(f.now, "m", name);
    f.now.pipelines[to].is_head_lost = true;
    CHECK(route_by_name(f.now, "m", name) == to);
    f.now.pipelines[to].is_head_lost = false;
    ++times[to];
  }
  CHECK(times.size() == 3);
  CHECK(route_by_name(f.now, "unknown", "order 1") == 0);
}

TEST_CASE("prefixes are those of whole blocks, and of the same salt") {
  const auto a = std::get<std::string>(prompt_of_blocks('a', 2));
  const auto two = prefix_hashes_of(a + "rest", "");
  CHECK(two.size() == 2);
  const auto three = prefix_hashes_of(a + std::string(block_bytes, 'b'), "");
  REQUIRE(three.size() == 3);
  CHECK(std::equal(two.begin(), two.end(), three.begin()));
  CHECK(prefix_hashes_of(a, "alice")[0] != two[0]);
  CHECK(prefix_hashes_of(std::string(block_bytes - 1, 'a'), "").empty());
  CHECK(prefix_hashes_of(prompt_of_blocks('a', prefix_blocks_max + 5), "").size() ==
        prefix_blocks_max);
  // A text, a conversation and ids share no prefix, whatever their bytes.
  CHECK(prefix_hashes_of(ids_prompt(64, 0x61616161), "").size() == 1);
  CHECK(prefix_hashes_of(ids_prompt(64, 0x61616161), "")[0] != two[0]);
}

TEST_CASE("a continued conversation has the same prefix") {
  chat_prompt talk{{"system", std::string(300, 's'), ""}, {"user", std::string(300, 'u'), ""}};
  const auto before = prefix_hashes_of(talk, "");
  CHECK(before.size() == 2);
  talk.push_back({"assistant", std::string(2000, 'a'), ""});
  const auto after = prefix_hashes_of(talk, "");
  REQUIRE(after.size() > before.size());
  CHECK(std::equal(before.begin(), before.end(), after.begin()));
  talk[0].content.back() = 'x';
  CHECK(prefix_hashes_of(talk, "")[1] != before[1]);
  talk[0].content.assign(8u << 20, 'x');
  CHECK(prefix_hashes_of(talk, "").size() == prefix_blocks_max);
}

TEST_CASE("recent prefixes are kept, and a prefix is evicted after its extensions") {
  prefix_cache_index memory(4);
  memory.note(std::vector<std::uint64_t>{1, 2, 3});
  memory.note(std::vector<std::uint64_t>{1, 5});
  CHECK(memory.size() == 4);
  memory.note(std::vector<std::uint64_t>{1, 6});
  CHECK(memory.size() == 4);
  CHECK(memory.match(std::vector<std::uint64_t>{1, 2, 3}) == 2); // 3 was evicted first
  CHECK(memory.match(std::vector<std::uint64_t>{1, 5, 9}) == 2);
  CHECK(memory.match(std::vector<std::uint64_t>{9, 5}) == 0);
  memory.clear();
  CHECK(memory.match(std::vector<std::uint64_t>{1}) == 0);
}
