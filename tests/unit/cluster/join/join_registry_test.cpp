// Rules for joining machines, without a socket.
#include "cluster/join/join_registry.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

const std::string key_b(64, 'b');
const std::string key_c(64, 'c');
const std::string stranger(64, '9');
const machine_facts four_cores{{0, 1, 2, 3}, 8ull << 30, {2, 3}};

cluster_config over_three_machines() {
  cluster_config c;
  c.nodes = {{"a", "127.0.0.1", {"cpu"}, "", "", false},
             {"b", "10.0.0.2", {"cpu"}, "", "", true},
             {"c", "10.0.0.3", {"cpu"}, "", "", true}};
  return c;
}

constexpr std::uint64_t now = 1'700'000'000'000'000; // microseconds

join_request asks(std::string node, std::string token = "") {
  return {std::move(node), std::move(token), "1.0", four_cores, "", now};
}

join_grant some_grant() {
  join_grant g;
  g.nodes = {"[model]\n", {{{"a", 0}, {"b", 1}, {"c", 2}}, {}}};
  g.known = {{root_machine, four_cores}, {"b", four_cores}};
  g.root_host = "10.0.0.1";
  g.port = 8010;
  g.root_key = std::string(64, 'a');
  g.pipelines = {{42, {{2, 2, {"c"}}, std::nullopt}}, {43, {{1, 1, {}}, std::nullopt, 1}}};
  return g;
}

} // namespace

TEST_CASE("a token lets one machine in, once; then it is known by its key") {
  join_registry registry(over_three_machines(), {}, "1.0");
  const auto token = registry.expected()[0].token;
  CHECK(token.size() == 32);
  CHECK(token != registry.expected()[1].token);
  CHECK(registry.answer(asks("b"), key_b, now).state == join_state::refused);
  CHECK(registry.answer(asks("b", "0" + token.substr(1)), key_b, now).state ==
        (token.front() == '0' ? join_state::wait : join_state::refused));
  CHECK(registry.answer(asks("c", token), key_b, now).state ==
        join_state::refused); // that of another node
  const auto in = registry.answer(asks("b", token), key_b, now);
  CHECK(in.state == join_state::wait);
  CHECK(in.reason == "waiting for c");
  CHECK(registry.keys() == machine_keys{{"b", key_b}});
  CHECK(registry.answer(asks("b", token), stranger, now).state == join_state::refused);
  CHECK(registry.answer(asks("b"), key_b, now).state == join_state::wait); // again, without it
  CHECK(registry.keys() == machine_keys{{"b", key_b}});
}

TEST_CASE("a machine with a known key needs no token, and there is none to steal") {
  join_registry registry(over_three_machines(), {{"b", key_b}}, "1.0");
  CHECK(registry.expected()[0].token.empty());
  CHECK(registry.answer(asks("b", ""), stranger, now).state == join_state::refused);
  CHECK(registry.answer(asks("b", ""), "", now).state == join_state::refused);
  CHECK(registry.answer(asks("b"), key_b, now).state == join_state::wait);
}

TEST_CASE("all are granted the same data once all have joined") {
  join_registry registry(over_three_machines(), {{"b", key_b}, {"c", key_c}}, "1.0");
  CHECK_FALSE(registry.is_complete());
  (void)registry.answer(asks("b"), key_b, now);
  CHECK_FALSE(registry.is_complete());
  (void)registry.answer(asks("c"), key_c, now);
  CHECK(registry.is_complete());
  CHECK(registry.gathered().at("c").siblings == four_cores.siblings);
  CHECK(registry.answer(asks("b"), key_b, now).reason == "the plan is being made");
  registry.open(some_grant());
  const auto b = registry.answer(asks("b"), key_b, now);
  REQUIRE(b.state == join_state::granted);
  CHECK(b.grant->host == "10.0.0.2");
  CHECK(b.grant->keys.trusts("c", key_c));
  CHECK(b.grant->nodes.config == "[model]\n");
  SUBCASE("hardware that a machine reports after the plan does not change it") {
    auto changed = asks("c");
    changed.machine.memory_available_bytes = 1;
    CHECK(registry.answer(changed, key_c, now).state == join_state::granted);
    CHECK(registry.gathered().at("c").memory_available_bytes == four_cores.memory_available_bytes);
  }
  SUBCASE("a machine that joins after layers have moved gets their new location") {
    CHECK(b.grant->pipelines[0].shards == generations{{2, 2, {"c"}}, std::nullopt});
    const generations moved{{1, 1, {}}, generation{3, 3, {}}, 1};
    registry.change(moved);
    const auto then = registry.answer(asks("c"), key_c, now).grant;
    CHECK(then->pipelines[1].shards == moved);
    CHECK(then->pipelines[0].shards == b.grant->pipelines[0].shards);
  }
  SUBCASE("a machine that cannot start its part reports it, and may join again") {
    auto failed = asks("c");
    failed.failed = "no such file";
    CHECK(registry.answer(failed, key_c, now).state == join_state::recorded);
    CHECK(registry.expected()[1].failed == "no such file");
    CHECK(registry.answer(asks("c"), key_c, now).state == join_state::granted);
    CHECK(registry.expected()[1].failed.empty());
  }
  SUBCASE("but another machine may not report it") {
    auto failed = asks("c");
    failed.failed = "a lie";
    CHECK(registry.answer(failed, stranger, now).state == join_state::refused);
    CHECK(registry.expected()[1].failed.empty());
  }
}

TEST_CASE("the cluster comes up without a waiting machine, which joins later") {
  auto config = over_three_machines();
  config.nodes.back().waits = true; // c
  join_registry registry(config, {{"b", key_b}}, "1.0");
  CHECK(registry.answer(asks("b"), key_b, now).reason == "the plan is being made");
  CHECK(registry.is_complete());
  CHECK_FALSE(registry.gathered().contains("c"));
  registry.open(some_grant());
  CHECK(registry.answer(asks("c"), key_c, now).state == join_state::refused);
  const auto token = registry.expected()[1].token;
  const auto first = registry.answer(asks("c", token), key_c, now);
  CHECK(first.state == join_state::wait); // the others know it before it gets their keys
  CHECK(first.reason == "the other machines are being informed");
  CHECK(registry.gathered().contains("c"));
  const auto then = registry.answer(asks("c", token), key_c, now);
  REQUIRE(then.state == join_state::granted);
  CHECK(then.grant->known.at("c").cores == four_cores.cores);
  CHECK(then.grant->keys.trusts("c", key_c));
  CHECK(registry.answer(asks("b"), key_b, now).grant->known.contains("c"));
}

TEST_CASE("a machine that joins during planning is known to all that are granted") {
  auto config = over_three_machines();
  config.nodes.back().waits = true; // c
  join_registry registry(config, {{"b", key_b}, {"c", key_c}}, "1.0");
  (void)registry.answer(asks("b"), key_b, now);
  auto grant = some_grant();
  CHECK_FALSE(grant.known.contains("c")); // as collected by now
  (void)registry.answer(asks("c"), key_c, now);
  grant.known.at("b").memory_available_bytes = 1; // the plan uses this
  registry.open(std::move(grant));
  const auto b = registry.answer(asks("b"), key_b, now).grant;
  REQUIRE(b.has_value());
  REQUIRE(b->known.contains("c"));
  CHECK(b->known.at("c").cores == four_cores.cores);
  CHECK(b->known.at("b").memory_available_bytes == 1);
  CHECK(registry.answer(asks("c"), key_c, now).grant->known.contains("c"));
}

TEST_CASE("another build, and an unknown node, are refused by name") {
  join_registry registry(over_three_machines(), {{"b", key_b}}, "1.0");
  auto old = asks("b");
  old.build = "0.9";
  CHECK(registry.answer(old, key_b, now).reason ==
        "node b is build 0.9, the cluster is 1.0: install the same");
  CHECK(registry.answer(asks("a"), key_b, now).state ==
        join_state::refused); // `cluster up` runs there
  CHECK(registry.answer(asks("z"), key_b, now).state == join_state::refused);
}

TEST_CASE("earlier machines need no request before there is a plan") {
  join_registry registry(over_three_machines(), {{"b", key_b}, {"c", key_c}}, "1.0");
  registry.remember({{root_machine, four_cores}, {"b", four_cores}, {"c", four_cores}});
  CHECK(registry.is_complete());
}

namespace {

const std::string next_b(64, 'e');

join_registry serving_three() {
  auto config = over_three_machines();
  config.nodes[1].public_key = key_b;
  join_registry registry(config, {{root_machine, stranger}, {"b", key_b}, {"c", key_c}}, "1.0");
  (void)registry.answer(asks("b"), key_b, now);
  (void)registry.answer(asks("c"), key_c, now);
  registry.open(some_grant());
  return registry;
}

} // namespace

TEST_CASE("a machine changes its key once every other has received the next one") {
  auto registry = serving_three();
  const key_change next{"b", next_b};
  const auto asked = registry.answer(next, key_b);
  CHECK(asked.state == join_state::wait);
  CHECK(asked.reason == "node b, c has not confirmed the key yet");
  CHECK(registry.keys().trusts("b", next_b));
  registry.confirm_keys("b", registry.keys());
  CHECK(registry.answer(next, key_b).reason == "node c has not confirmed the key yet");
  CHECK(registry.answer(key_change{"b", next_b, false}, key_b).state ==
        join_state::recorded); // forced
  registry.confirm_keys("c", registry.keys());
  CHECK(registry.answer(next, key_b).state == join_state::recorded);
  CHECK(registry.answer(asks("b"), next_b, now).state == join_state::granted);
  CHECK(registry.answer(key_change{"b", ""}, key_b).state == join_state::refused); // not the latest
  const auto done = registry.answer(key_change{"b", ""}, next_b);
  CHECK(done.state == join_state::recorded);
  CHECK(done.reason.find("public_key = \"" + next_b + "\"") != std::string::npos);
  CHECK(registry.answer(asks("b"), key_b, now).state == join_state::refused);
  CHECK(registry.answer(key_change{"b", key_b}, next_b).state == join_state::refused);
  CHECK(registry.answer(asks("b"), next_b, now).grant->keys == registry.keys());
}

TEST_CASE("only a machine itself changes its key, to one that is not in use") {
  auto registry = serving_three();
  const auto before = registry.keys();
  CHECK(registry.answer(key_change{"b", next_b}, key_c).state == join_state::refused);
  CHECK(registry.answer(key_change{"b", next_b}, next_b).state == join_state::refused);
  CHECK(registry.answer(key_change{"z", next_b}, key_b).state == join_state::refused);
  CHECK(registry.answer(key_change{"b", ""}, key_c).state == join_state::refused);
  CHECK(registry.answer(key_change{"b", key_c}, key_b).state == join_state::refused);
  CHECK(registry.answer(key_change{"b", "no key"}, key_b).state == join_state::refused);
  CHECK(registry.keys() == before);
}

TEST_CASE("the root's machine changes its key, and later machines expect the new one") {
  auto registry = serving_three();
  for (const auto* node : {"b", "c"}) {
    auto confirmed = registry.keys();
    REQUIRE(confirmed.add(root_machine, next_b));
    registry.confirm_keys(node, confirmed);
  }
  CHECK(registry.answer(key_change{root_machine, next_b}, stranger).state == join_state::recorded);
  registry.use_root_key(next_b);
  CHECK(registry.answer(key_change{root_machine, ""}, next_b).reason.empty());
  CHECK(registry.answer(asks("c"), key_c, now).grant->root_key == next_b);
}

TEST_CASE("messages of the join server are parsed, and anything else is nothing") {
  auto r = asks("b", "t");
  r.failed = "f \"quoted\"";
  const auto read = join_request_from(text_of(r));
  REQUIRE(read);
  CHECK(read->node == "b");
  CHECK(read->token == "t");
  CHECK(read->failed == r.failed);
  CHECK(read->machine.cores == four_cores.cores);
  const auto change = key_change_from(text_of(key_change{"b", key_c, false}));
  REQUIRE(change);
  CHECK(change->node == "b");
  CHECK(change->next == key_c);
  CHECK_FALSE(change->is_patient);
  CHECK_FALSE(key_change_from(text_of(r)));
  CHECK_FALSE(join_request_from(text_of(*change)));
  CHECK(join_answer_from(text_of(join_answer{join_state::recorded, "w", std::nullopt}))->state ==
        join_state::recorded);
  join_answer a{join_state::granted, "", some_grant()};
  a.grant->keys = {{root_machine, stranger}, {"b", key_c}, {"b", key_b}};
  a.grant->pipelines[0].shards.coming = generation{3, 1, {"b", "c"}};
  const auto granted = join_answer_from(text_of(a));
  REQUIRE(granted);
  REQUIRE(granted->grant);
  CHECK(granted->grant->known.at("b").siblings == four_cores.siblings);
  CHECK(granted->grant->keys == a.grant->keys);
  REQUIRE(granted->grant->pipelines.size() == 2);
  for (std::size_t p = 0; p < 2; ++p) {
    CHECK(granted->grant->pipelines[p].shards == a.grant->pipelines[p].shards);
    CHECK(granted->grant->pipelines[p].model_fingerprint == 42 + p);
  }
  a.grant->pipelines[1].shards.serving.width = 0;
  CHECK_FALSE(join_answer_from(text_of(a)));
  for (const char* text : {"", "{}", "[]", "null", "{\"node\":1}", "{\"state\":\"granted\"}",
                           "{\"state\":\"granted\",\"reason\":\"\",\"grant\":{}}",
                           "{\"state\":\"open\",\"reason\":\"\"}", "\xff"}) {
    CAPTURE(text);
    CHECK_FALSE(join_request_from(text));
    CHECK_FALSE(key_change_from(text));
    CHECK_FALSE(join_answer_from(text));
  }
  auto bad_core = text_of(r);
  bad_core.replace(bad_core.find("[0,1,2,3]"), 9, "[0,99999]");
  CHECK_FALSE(join_request_from(bad_core));
}

TEST_CASE("a new node joins with a token or its key, and a removed one does not") {
  join_registry registry(over_three_machines(), {{"b", key_b}, {"c", key_c}}, "1.0");
  (void)registry.answer(asks("b"), key_b, now);
  (void)registry.answer(asks("c"), key_c, now);
  registry.open(some_grant());
  const std::string key_d(64, 'd');
  const node_config d{"d", "10.0.0.4", {"cpu"}, "", "", true, true};
  const node_update grown{"grown", {{{"d", 3}}, {}}};
  SUBCASE("by a token") {
    CHECK(registry.answer(asks("d"), key_d, now).state == join_state::refused);
    registry.use_nodes(grown);
    CHECK(registry.expect(d));
    const auto token = registry.expected().back().token;
    CHECK(registry.answer(asks("d"), key_d, now).state == join_state::refused);
    CHECK(registry.answer(asks("d", token), key_d, now).reason ==
          "the other machines are being informed");
    const auto in = registry.answer(asks("d"), key_d, now);
    REQUIRE(in.state == join_state::granted);
    CHECK(in.grant->nodes.members == grown.members);
    CHECK(in.grant->known.contains("d"));
  }
  SUBCASE("by the key in nodes.toml") {
    auto named = d;
    named.public_key = key_d;
    CHECK(registry.expect(named));
    CHECK(registry.expected().back().token.empty());
    CHECK(registry.answer(asks("d"), key_d, now).state == join_state::wait);
  }
  SUBCASE("but not by another machine's") {
    auto named = d;
    named.public_key = key_c;
    CHECK_FALSE(registry.expect(named));
    CHECK_FALSE(registry.expected().back().token.empty());
  }
  SUBCASE("a removed machine is trusted until its agent has confirmed, and comes back as new") {
    registry.dismiss("c");
    CHECK(registry.answer(asks("c"), key_c, now).state == join_state::refused);
    CHECK(registry.keys().trusts("c", key_c));
    CHECK_FALSE(registry.answer(asks("b"), key_b, now).grant->known.contains("c"));
    registry.forget_removed();
    CHECK_FALSE(registry.keys().trusts(key_c));
    CHECK(registry.keys().trusts("b", key_b));
    CHECK(registry.expect({"c", "10.0.0.3", {"cpu"}, "", "", true, true}));
    CHECK_FALSE(registry.expected().back().token.empty());
    CHECK(registry.answer(asks("c"), key_c, now).state == join_state::refused);
  }
}

TEST_CASE("a machine with a wrong clock does not join, but may join later") {
  join_registry registry(over_three_machines(), {{"b", key_b}}, "1.0");
  auto late = asks("b");
  late.clock_micros = now - 95'000'000;
  const auto refused = registry.answer(late, key_b, now);
  CHECK(refused.state == join_state::refused);
  CHECK(refused.reason.starts_with("node b: its clock is 95 s behind"));
  late.clock_micros = now + 31'000'000;
  CHECK(registry.answer(late, key_b, now).reason.starts_with("node b: its clock is 31 s ahead of"));
  late.clock_micros = now + 30'000'000;
  CHECK(registry.answer(late, key_b, now).state == join_state::wait);
  late.clock_micros = 0;
  CHECK(registry.answer(late, key_b, now).state == join_state::wait);
}

TEST_CASE("only a known machine may have itself probed") {
  join_registry registry(over_three_machines(), {{"b", key_b}, {"c", key_c}}, "1.0");
  CHECK(registry.host_of("b", key_b) == "10.0.0.2");
  CHECK_FALSE(registry.host_of("b", key_c));
  CHECK_FALSE(registry.host_of("b", ""));
  CHECK_FALSE(registry.host_of("z", key_b));
  const auto read = reach_request_from(text_of(reach_request{"b", 41234}));
  REQUIRE(read);
  CHECK(read->node == "b");
  CHECK(read->port == 41234);
  CHECK_FALSE(reach_request_from(R"({"node": "b", "reach_port": 65536})"));
  CHECK_FALSE(reach_request_from(R"({"node": "b", "reach_port": 0})"));
  CHECK_FALSE(reach_request_from(text_of(asks("b"))));
}

TEST_CASE("a link is measured for each machine that may join, and its token stays valid") {
  join_registry registry(over_three_machines(), {{"b", key_b}}, "1.0");
  const auto token = registry.expected()[1].token; // that of c
  CHECK(registry.may_ask({"b", "", 1}, key_b));
  CHECK(registry.may_ask({"c", token, 1}, key_c));
  CHECK_FALSE(registry.may_ask({"c", "", 1}, key_c));
  CHECK_FALSE(registry.may_ask({"b", token, 1}, stranger));
  CHECK_FALSE(registry.may_ask({"z", token, 1}, key_b));
  CHECK(registry.answer(asks("c", token), key_c, now).state == join_state::wait);
  const auto read = link_request_from(text_of(link_request{"b", "t", link_bytes_max}));
  REQUIRE(read);
  CHECK(read->node == "b");
  CHECK(read->token == "t");
  CHECK(read->bytes == link_bytes_max);
  CHECK_FALSE(link_request_from(text_of(link_request{"b", "t", link_bytes_max + 1})));
  CHECK_FALSE(link_request_from(R"({"node": "b", "token": "", "link_bytes": -1})"));
  CHECK_FALSE(link_request_from(text_of(asks("b"))));
  CHECK_FALSE(join_request_from(text_of(link_request{"b", "t", 1})));
}
