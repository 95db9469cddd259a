// Authentication by key over real ZeroMQ, and a machine that changes its own key.
#include "tests/support/deadline_scale.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/live_process.hpp"
#include "tests/unit/bus/silent_listener.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<cluster::trusted_keys> trusting(cluster::machine_keys keys) {
  return std::make_shared<cluster::trusted_keys>(std::move(keys));
}

live_options keyed(const cluster::key_pair& own, std::shared_ptr<cluster::trusted_keys> trusts) {
  live_options o;
  o.bus.curve = {own, std::move(trusts)};
  o.bus.handshake_timeout = 200ms;
  return o;
}

} // namespace

TEST_CASE("with keys, peers that trust one another link; others get nothing across") {
  const auto h_key = cluster::make_key_pair();
  const auto s_key = cluster::make_key_pair();
  const auto other_key = cluster::make_key_pair();
  const auto h_trusts = trusting({{"s", s_key.public_key}});
  const auto s_trusts = trusting({{"h", h_key.public_key}});
  const auto h_options = keyed(h_key, h_trusts);
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*", h_options);
  CHECK(h.endpoint().ends_with("#" + h_key.public_key));
  const auto is_linked = [&](live_process& s) {
    REQUIRE(s.links->connect(head_process, h.endpoint()));
    return s.wait([&] { return s.ups > 0; }, 500ms);
  };
  SUBCASE("a trusted peer") {
    live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(s_key, s_trusts));
    REQUIRE(s.links->connect(head_process, h.endpoint()));
    REQUIRE(s.wait_up());
    s.links->post(head_process, echo_box, batch_of(1, 100), reply_box);
    CHECK(s.wait([&] { return s.replies == 1; }));
  }
  SUBCASE("an untrusted peer, until it is trusted; and until its machine is removed") {
    live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*",
                   keyed(other_key, s_trusts));
    CHECK_FALSE(is_linked(s));
    CHECK(h.bus.counters().strangers > 0);
    h_trusts->replace({{"o", other_key.public_key}});
    REQUIRE(s.wait_up()); // it retries by itself
    cluster::machine_keys changed{{"o", other_key.public_key}, {"o", s_key.public_key}};
    changed.retire_older("o");
    h_trusts->replace(changed);
    s.links->post(head_process, echo_box, batch_of(1, 100), reply_box);
    CHECK(s.wait([&] { return s.replies == 1; }));
    const auto strangers = h.bus.counters().strangers;
    h_trusts->replace({});
    s.links->post(head_process, echo_box, batch_of(1, 100), reply_box);
    CHECK(s.wait([&] { return h.bus.counters().strangers > strangers; }));
    CHECK_FALSE(s.wait([&] { return s.replies == 2; }, 200ms));
  }
  SUBCASE("a peer that expects another listener") {
    live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(s_key, s_trusts));
    const auto address = cluster::split_key(h.endpoint()).address;
    REQUIRE(s.links->connect(head_process, address + "#" + other_key.public_key));
    CHECK_FALSE(s.wait([&] { return s.ups > 0; }, 500ms));
  }
  SUBCASE("a peer without a key") {
    live_process plain(process_id{4}, incarnation_id{1}, "tcp://127.0.0.1:*");
    CHECK_FALSE(plain.links->connect(head_process, h.endpoint()));
    REQUIRE(plain.links->connect(head_process, cluster::split_key(h.endpoint()).address));
    CHECK_FALSE(plain.wait([&] { return plain.ups > 0; }, 500ms));
    CHECK(h.count(&live_process::ups) == 0);
  }
}

// The bus receives both events together: its thread runs late.
TEST_CASE("a successful handshake before a failed one that was not reported yet is not a link") {
  const auto own = cluster::make_key_pair(), theirs = cluster::make_key_pair();
  std::optional<silent_listener> server(1);
  const auto address = server->endpoint();
  cluster::bus_zmq bus(keyed(own, trusting({{"t", theirs.public_key}})).bus);
  REQUIRE(bus.connect(head_process, address + "#" + theirs.public_key));
  server->wait_until_one_has_left(); // its handshake has failed
  server.reset();
  std::mutex mutex;
  std::condition_variable changed;
  int received = 0, ups = 0;
  const auto count = [&](int& what) {
    const std::lock_guard lock(mutex);
    ++what;
    changed.notify_all();
  };
  cluster::bus_zmq peer(keyed(theirs, trusting({{"o", own.public_key}})).bus);
  REQUIRE(peer.bind(address));
  peer.start({[&](frames&&) { count(received); }, [](process_id) {},
              [](process_id, const std::string&) {}});
  const auto send_until = [&](int arrived, int stood) {
    const auto f = encode(envelope{}, message(sampled{}));
    const auto deadline = std::chrono::steady_clock::now() + scaled(5s);
    bool is_done = false;
    while (!is_done && std::chrono::steady_clock::now() < deadline) {
      static_cast<void>(bus.send(head_process, f));
      std::unique_lock lock(mutex);
      is_done = changed.wait_for(lock, 5ms, [&] { return received >= arrived && ups >= stood; });
    }
    return is_done;
  };
  REQUIRE(send_until(1, 0));
  bus.start(
      {[](frames&&) {}, [&](process_id) { count(ups); }, [](process_id, const std::string&) {}});
  CHECK(send_until(100, 1)); // more than could be in flight
  CHECK(bus.counters().handshakes_failed > 0);
  bus.stop();
  peer.stop();
}

TEST_CASE(
    "a process that listens with another key is found by peers that know its machine's keys") {
  const auto h_key = cluster::make_key_pair();
  const auto next_key = cluster::make_key_pair();
  const auto s_key = cluster::make_key_pair();
  const auto all = trusting({{"h", h_key.public_key}, {"s", s_key.public_key}});
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(h_key, all));
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(s_key, all));
  REQUIRE(s.links->connect(head_process, h.endpoint()));
  REQUIRE(s.wait_up());
  REQUIRE(h.wait_up());
  const auto address = cluster::split_key(h.endpoint()).address;
  cluster::machine_keys both{
      {"h", h_key.public_key}, {"h", next_key.public_key}, {"s", s_key.public_key}};
  SUBCASE("all have received it") {
    all->replace(both);
    h.bus.use_key(next_key);
  }
  SUBCASE("they receive it later") {
    h.bus.use_key(next_key);
    CHECK(s.wait([&] { return s.downs == 1; }));
    all->replace(both);
  }
  REQUIRE(s.wait_up(2));
  REQUIRE(h.wait_up(2));
  CHECK(h.bus.key_in_use() == next_key.public_key);
  s.links->post(head_process, echo_box, batch_of(1, 100), reply_box);
  CHECK(s.wait([&] { return s.replies == 1; }));
  both.retire_older("h");
  all->replace(both);
  // A peer that only knows the previous key is accepted as well, and receives the current one.
  live_process late(process_id{3}, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(s_key, all));
  REQUIRE(late.links->connect(head_process, address + "#" + h_key.public_key));
  REQUIRE(late.wait_up());
  h.links->listen_at(address + "#" + next_key.public_key);
  live_process configured(process_id{4}, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(s_key, all));
  REQUIRE(h.links->connect(process_id{4}, configured.endpoint()));
  REQUIRE(configured.wait_up());
  CHECK(configured.wait([&] { return configured.last_up.endpoint == h.endpoint(); }, 0ms));
  // The previous key is rejected.
  live_process thief(process_id{5}, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(h_key, all));
  REQUIRE(thief.links->connect(head_process, h.endpoint()));
  CHECK_FALSE(thief.wait([&] { return thief.ups > 0; }, 500ms));
}

TEST_CASE("two processes of a machine change its key at the same time, repeatedly") {
  auto key = cluster::make_key_pair();
  cluster::machine_keys keys{{"m", key.public_key}};
  const auto all = trusting(keys);
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(key, all));
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(key, all));
  REQUIRE(s.links->connect(head_process, h.endpoint()));
  REQUIRE(s.wait_up());
  REQUIRE(h.wait_up());
  for (int round = 1; round <= 12; ++round) { // more than the remembered keys of a machine
    CAPTURE(round);
    key = cluster::make_key_pair();
    REQUIRE(keys.add("m", key.public_key));
    all->replace(keys);
    for (auto* one : {&h, &s})
      one->bus.use_key(key);
    for (auto* one : {&h, &s})
      REQUIRE(one->wait([&] { return one->bus.key_in_use() == key.public_key; }));
    for (auto* one : {&h, &s})
      one->links->listen_at(cluster::split_key(one->endpoint()).address + "#" + key.public_key);
    // Messages lost with the link are sent again. Not in the condition: posting may report the
    // link's fall, and the test's own mutex is held there.
    const auto is_answered = [&] { return s.replies >= round; };
    for (int times = 0; times < 1000 && !s.wait(is_answered, 10ms); ++times)
      s.links->post(head_process, echo_box, batch_of(1, 100), reply_box);
    REQUIRE(s.wait(is_answered, 0ms));
    keys.retire_older("m");
    all->replace(keys);
    std::lock_guard lock(s.mutex);
    s.replies = round;
  }
}

TEST_CASE("a process whose own key has changed is accepted with the new one") {
  const auto h_key = cluster::make_key_pair();
  const auto s_key = cluster::make_key_pair();
  const auto next_key = cluster::make_key_pair();
  const auto h_trusts = trusting({{"s", next_key.public_key}});
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*", keyed(h_key, h_trusts));
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*",
                 keyed(s_key, trusting({{"h", h_key.public_key}})));
  REQUIRE(s.links->connect(head_process, h.endpoint()));
  CHECK_FALSE(s.wait([&] { return s.ups > 0; }, 200ms));
  s.bus.use_key(next_key);
  s.links->listen_at(cluster::split_key(s.endpoint()).address + "#" + next_key.public_key);
  REQUIRE(s.wait_up());
}

TEST_CASE("an unknown key is looked up in the recorded keys") {
  cluster::machine_keys noted{{"m", "a"}};
  int looks = 0;
  const cluster::trusted_keys trusted(noted, [&] {
    ++looks;
    return noted;
  });
  CHECK(trusted.holds("a"));
  CHECK_FALSE(trusted.holds(""));
  CHECK(looks == 0);
  CHECK_FALSE(trusted.holds("b"));
  CHECK(trusted.next_after("a") == "a");
  CHECK(looks == 2);
  noted = {{"m", "a"}, {"m", "b"}};
  CHECK(trusted.next_after("a") == "b");
  looks = 1;
  noted = {{"m", "b"}};
  CHECK(trusted.holds("b"));
  CHECK(looks == 1);
  CHECK_FALSE(trusted.holds("c"));
  CHECK(trusted.holds("b"));
  CHECK(looks == 2);
  CHECK_FALSE(trusted.holds("a")); // no longer recorded
}

TEST_CASE("a key file is readable by its owner only, and is not overwritten") {
  scratch_directory dir;
  const auto file = dir.path() / "deep" / "key";
  const auto pair = cluster::make_key_pair();
  CHECK(cluster::is_curve_key(pair.public_key));
  CHECK(cluster::key_text(cluster::key_bytes(pair.secret_key)) == pair.secret_key);
  CHECK(cluster::read_key_file(file).error().code == errc::not_found);
  REQUIRE(cluster::write_key_file(file, pair));
  const auto read = cluster::read_key_file(file);
  REQUIRE(read);
  CHECK(read->public_key == pair.public_key);
  CHECK(read->secret_key == pair.secret_key);
  CHECK(cluster::write_key_file(file, cluster::make_key_pair()).error().code == errc::conflict);
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  CHECK(cluster::read_key_file(file).error().code == errc::io_failed);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  std::ofstream(file) << "public " << pair.public_key << "\nsecret 00\n";
  CHECK(cluster::read_key_file(file).error().code == errc::bad_config);
}
