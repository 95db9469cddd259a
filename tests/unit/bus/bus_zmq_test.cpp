// The bus and the message router over real ZeroMQ, ipc and tcp, in one process.
#include "cluster/bus/bus_endpoint.hpp"
#include "cluster/files/open_files.hpp"
#include "schema/packet.hpp"
#include "tests/support/deadline_scale.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/live_process.hpp"
#include "tests/unit/bus/silent_listener.hpp"

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.hpp>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <optional>
#include <random>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using cluster::sent;

namespace {

// An endpoint of each transport.
struct transports {
  scratch_directory dir;
  std::vector<std::string> endpoints(const std::string& name) {
    return {"ipc://" + (dir.path() / name).string(), "tcp://127.0.0.1:*"};
  }
};

// A peer that speaks raw ZeroMQ.
struct stranger {
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  explicit stranger(const std::string& endpoint) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndtimeo, 5000);
    socket.connect(endpoint);
  }
  void send_frames(const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      CHECK(socket.send(zmq::buffer(parts[i]),
                        i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none));
  }
  void send_frames(const frames& f) {
    std::string packet(packed_bytes(f), '\0');
    pack(f, reinterpret_cast<std::byte*>(packet.data()));
    send_frames(std::vector{packet});
  }
};

} // namespace

TEST_CASE("two processes exchange greetings and messages of all sizes over ipc and tcp") {
  transports t;
  for (std::size_t i = 0; i < 2; ++i) {
    live_process h(head_process, incarnation_id{1}, t.endpoints("head")[i]);
    live_process s(shard_process, incarnation_id{1}, t.endpoints("shard")[i]);
    CAPTURE(h.endpoint());
    REQUIRE(s.links->connect(head_process, h.endpoint()));
    REQUIRE(h.wait_up());
    REQUIRE(s.wait_up());
    CHECK(h.wait([&] { return h.last_up.name == "node-2"; }, 0ms));
    int expected = 0;
    for (std::size_t floats : {1u, 16u, 1024u, 16'384u, 1'000'000u}) {
      s.links->post(head_process, echo_box, batch_of(floats, floats), reply_box, 5);
      REQUIRE(s.wait([&] { return s.replies == expected + 1; }));
      ++expected;
      std::lock_guard lock(s.mutex);
      const auto& m = std::get<micro_batch>(s.last_message);
      CHECK(s.last.correlation == 5);
      REQUIRE(m.activations.size_bytes == floats * 4);
      CHECK(reinterpret_cast<std::uintptr_t>(m.activations.data) % 64 == 0);
      const auto* values = reinterpret_cast<const float*>(m.activations.data);
      CHECK(values[0] == static_cast<float>(floats));
      CHECK(values[floats - 1] == static_cast<float>(floats));
    }
    CHECK(s.bus.counters().bad_frames == 0);
  }
}

TEST_CASE("the next incarnation of a peer at a new endpoint is up at once, frames of the old one "
          "are refused") {
  transports t;
  live_process h(head_process, incarnation_id{1}, t.endpoints("head")[0]);
  auto s =
      std::make_unique<live_process>(shard_process, incarnation_id{1}, t.endpoints("shard-1")[0]);
  REQUIRE(s->links->connect(head_process, h.endpoint()));
  REQUIRE(h.wait_up());
  s.reset();
  REQUIRE(h.wait([&] { return h.downs == 1; }));
  live_process s2(shard_process, incarnation_id{2}, t.endpoints("shard-2")[0]);
  REQUIRE(s2.links->connect(head_process, h.endpoint()));
  REQUIRE(h.wait_up(2));
  CHECK(h.wait([&] { return h.last_up.incarnation == incarnation_id{2}; }, 0ms));
  stranger zombie(h.endpoint());
  envelope e;
  e.source = shard_process;
  e.source_incarnation = incarnation_id{1};
  e.target = head_process;
  e.target_incarnation = incarnation_id{1};
  e.target_actor = reply_box;
  e.sequence = 3;
  zombie.send_frames(encode(e, message(sampled{})));
  CHECK(h.wait([&] { return h.links->counters().stale == 1; }));
  CHECK(h.links->is_up(shard_process));
  CHECK(h.count(&live_process::replies) == 0);
}

TEST_CASE("garbage of any shape is counted and has no effect") {
  transports t;
  for (std::size_t i = 0; i < 2; ++i) {
    live_process h(head_process, incarnation_id{1}, t.endpoints("head")[i]);
    live_process s(shard_process, incarnation_id{1}, t.endpoints("shard")[i]);
    REQUIRE(s.links->connect(head_process, h.endpoint()));
    REQUIRE(h.wait_up());
    stranger evil(h.endpoint());
    std::mt19937_64 random(5);
    auto bytes = [&](std::size_t size) {
      std::string b(size, '\0');
      for (auto& c : b)
        c = static_cast<char>(random());
      return b;
    };
    for (std::size_t n = 0; n < 100; ++n)
      evil.send_frames({bytes(n * 7)});
    for (std::size_t n = 0; n < 100; ++n)
      evil.send_frames({bytes(n), bytes(n)});
    for (std::size_t n = 0; n < 100; ++n)
      evil.send_frames({bytes(n), bytes(n), bytes(n), bytes(n), bytes(n)});
    for (std::size_t n = 0; n < 100; ++n)
      evil.send_frames({bytes(n * 30), bytes(n), bytes(n)});
    // Every single-byte change of a valid frame: if it still verifies, its fields are checked.
    envelope e;
    e.source = process_id{9};
    e.source_incarnation = incarnation_id{1};
    e.target = head_process;
    e.correlation = e.sequence = 1;
    auto f = encode(e, message(sampled{}));
    const std::string good(reinterpret_cast<const char*>(f.head.data), f.head.size_bytes);
    for (std::size_t n = 0; n < good.size(); ++n) {
      auto changed = good;
      changed[n] = static_cast<char>(changed[n] ^ 0x41);
      const auto body = bytes(64);
      f.head.data = reinterpret_cast<const std::byte*>(changed.data());
      f.body = {nullptr, reinterpret_cast<const std::byte*>(body.data()), body.size()};
      evil.send_frames(f);
    }
    CHECK(h.wait([&] { return h.bus.counters().bad_frames == 400; }));
    CHECK(h.wait([&] {
      const auto c = h.links->counters();
      return c.bad + c.unknown_peer + c.version >= good.size();
    }));
    s.links->post(head_process, echo_box, batch_of(1, 4), reply_box);
    CHECK(s.wait([&] { return s.replies == 1; }));
    CHECK(h.count(&live_process::downs) == 0);
  }
}

TEST_CASE(
    "a packet above the limit is not sent, and one that arrives disconnects only its sender") {
  live_options small;
  small.bus.packet_bytes_max = 64 * 1024;
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*", small);
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", small);
  REQUIRE(s.links->connect(head_process, h.endpoint()));
  REQUIRE(h.wait_up());
  REQUIRE(s.wait_up());
  CHECK(s.links->send(head_process, echo_box, batch_of(1, 20'000)) == sent::too_large);
  stranger evil(h.endpoint());
  evil.send_frames(std::vector{std::string(100'000, 'x')});
  s.links->post(head_process, echo_box, batch_of(1, 1000), reply_box);
  CHECK(s.wait([&] { return s.replies == 1; }));
  CHECK(h.bus.counters().received < 100);
  CHECK(h.count(&live_process::downs) == 0);
}

TEST_CASE("a bus whose peer does not read returns back-pressure and loses no accepted message") {
  cluster::bus_zmq_options few;
  few.messages_queued_max = 10;
  cluster::bus_zmq from(few);
  cluster::bus_zmq to(few);
  auto endpoint = to.bind("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  std::mutex mutex;
  std::condition_variable changed;
  bool is_connected = false;
  int received = 0;
  auto note = [&](auto&& what) {
    {
      std::lock_guard lock(mutex);
      what();
    }
    changed.notify_all();
  };
  auto wait = [&](auto&& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, scaled(10s), condition);
  };
  frames f;
  auto bytes = std::make_shared<std::vector<std::byte>>(100'000);
  f.head = f.body = f.bulk = {bytes, bytes->data(), bytes->size()};
  CHECK(from.send(shard_process, f) == sent::unknown_peer);
  scratch_directory dir;
  REQUIRE(from.connect(process_id{9}, "ipc://" + (dir.path() / "nobody").string()));
  CHECK(from.send(process_id{9}, f) == sent::down);
  REQUIRE(from.connect(shard_process, *endpoint));
  from.start({.received = [](frames&&) {},
              .connected = [&](process_id) { note([&] { is_connected = true; }); },
              .disconnected = [](process_id, std::string) {}});
  REQUIRE(wait([&] { return is_connected; }));
  int taken = 0;
  auto last = sent::ok;
  while (taken < 10'000 && (last = from.send(shard_process, f)) == sent::ok)
    ++taken;
  CHECK(last == sent::back_pressure);
  CHECK(taken > 0);
  to.start({.received = [&](frames&&) { note([&] { ++received; }); },
            .connected = [](process_id) {},
            .disconnected = [](process_id, std::string) {}});
  CHECK(wait([&] { return received == taken; }));
  to.stop();
  from.stop();
  CHECK(from.send(shard_process, f) == sent::unknown_peer);
}

TEST_CASE("many threads send to one peer: each thread's messages arrive in order, each once") {
  live_process h(head_process, incarnation_id{1}, "tcp://127.0.0.1:*");
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*");
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t each = 2000;
  std::vector<std::uint64_t> next(threads, 0);
  std::uint64_t wrong = 0;
  std::uint64_t total = 0;
  h.links->publish(actor_id{7}, [&](const envelope& e, message&&) {
    std::lock_guard lock(h.mutex);
    wrong += next[e.correlation / each]++ != e.correlation % each;
    ++total;
  });
  REQUIRE(s.links->connect(head_process, h.endpoint()));
  REQUIRE(s.wait_up());
  std::vector<std::thread> senders;
  for (std::uint64_t t = 0; t < threads; ++t)
    senders.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i)
        s.links->post(head_process, actor_id{7}, t % 2 == 0 ? batch_of(i, 300) : message(sampled{}),
                      {}, t * each + i);
    });
  for (auto& t : senders)
    t.join();
  CHECK(h.wait([&] { return total == threads * each; }));
  CHECK(wrong == 0);
  CHECK(s.count(&live_process::downs) == 0);
}

TEST_CASE("endpoints beyond the machine need keys, and invalid ones are refused") {
  struct row {
    const char* endpoint;
    bool without_keys;
    bool with_keys;
  };
  const row rows[] = {
      {"tcp://127.0.0.1:5000", true, true},
      {"tcp://127.9.8.7:*", true, true},
      {"tcp://[::1]:5000", true, true},
      {"tcp://localhost:5000", true, true},
      {"ipc:///tmp/x", true, true},
      {"tcp://0.0.0.0:5000", false, false},
      {"tcp://*:5000", false, false},
      {"tcp://10.0.0.7:5000", false, true},
      {"tcp://eth0:5000", false, true},
      {"tcp://127.0.0.1;10.0.0.7:5000", false, true},
      {"tcp://127.0.0.1.evil.org:5000", false, true},
      {"tcp://[::]:5000", false, false},
      {"tcp://127.0.0.1", false, false},
      {"tcp://127.0.0.1:", false, false},
      {"tcp://", false, false},
      {"ipc://", false, false},
      {"ipc://@abstract", false, false},
      {"inproc://x", false, false},
      {"pgm://x", false, false},
      {"", false, false},
  };
  for (const auto& r : rows) {
    CAPTURE(r.endpoint);
    CHECK(cluster::check_endpoint(r.endpoint, false).has_value() == r.without_keys);
    CHECK(cluster::check_endpoint(r.endpoint, true).has_value() == r.with_keys);
  }
  CHECK_FALSE(cluster::check_endpoint("ipc:///" + std::string(108, 'a'), false));
  cluster::bus_zmq b({});
  auto open = b.bind("tcp://0.0.0.0:*");
  REQUIRE_FALSE(open);
  CHECK(open.error().code == errc::bad_config);
  auto far = b.connect(shard_process, "tcp://10.0.0.7:5000");
  REQUIRE_FALSE(far);
  CHECK(far.error().code == errc::bad_config);
}

TEST_CASE("an ipc socket belongs to its user; a dead process's is replaced, a live one's is not") {
  scratch_directory dir;
  const auto path = (dir.path() / "bus").string();
  {
    cluster::bus_zmq first({});
    REQUIRE(first.bind("ipc://" + path));
    struct stat about {};
    REQUIRE(::stat(path.c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
    cluster::bus_zmq second({});
    auto taken = second.bind("ipc://" + path);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == errc::address_in_use);
  }
  {
    // A socket file whose process is gone.
    zmq::context_t context(1);
    zmq::socket_t listener(context, zmq::socket_type::router);
    listener.bind("ipc://" + path);
    std::filesystem::rename(path, path + "-dead");
  }
  std::filesystem::rename(path + "-dead", path);
  cluster::bus_zmq heir({});
  CHECK(heir.bind("ipc://" + path));
  const auto file = (dir.path() / "file").string();
  std::ofstream(file) << "not a socket";
  auto refused = heir.bind("ipc://" + file);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::address_in_use);
  CHECK(std::filesystem::exists(file));
  auto nowhere = heir.bind("ipc://" + (dir.path() / "none" / "bus").string());
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == errc::io_failed);
}

// Its queue is full: the system drops new connections, as if there were no machine.
TEST_CASE("a peer that was away during the connect is found at once when it is back") {
  std::optional<silent_listener> server(0);
  const int guest = server->enter();
  const auto endpoint = server->endpoint();
  live_options o;
  o.bus.connect_timeout = 100ms;
  live_process s(shard_process, incarnation_id{1}, "tcp://127.0.0.1:*", o);
  REQUIRE(s.links->connect(head_process, endpoint));
  CHECK_FALSE(s.wait([&] { return s.ups > 0; }, 5200ms)); // the system retries after 5 s, then 7 s
  ::close(guest);
  server.reset();
  live_process h(head_process, incarnation_id{1}, endpoint);
  CHECK(s.wait([&] { return s.ups == 1; }, 1500ms));
}

TEST_CASE("an endpoint contains the key of its listener") {
  const std::string key(64, 'a');
  CHECK(cluster::split_key("tcp://10.0.0.1:80#" + key).key == key);
  CHECK(cluster::split_key("tcp://10.0.0.1:80#" + key).address == "tcp://10.0.0.1:80");
  for (const std::string without : {"tcp://10.0.0.1:80", "tcp://10.0.0.1:80#", "ipc:///tmp/a#b"}) {
    CHECK(cluster::split_key(without).key.empty());
    CHECK(cluster::split_key(without).address == without);
  }
}

TEST_CASE("a process may have as many peers as a large cluster has machines") {
  constexpr std::uint32_t peers = 1200;
  if (cluster::use_all_open_files() < peers * cluster::files_per_peer + cluster::files_of_process) {
    MESSAGE("the system does not allow as many open files: not tried");
    return;
  }
  transports t;
  std::atomic<std::uint32_t> ups = 0;
  std::atomic<std::uint32_t> received = 0;
  std::promise<void> all_up, all_there;
  cluster::bus_zmq there({});
  const auto endpoint = there.bind(t.endpoints("there")[0]);
  REQUIRE(endpoint);
  there.start({.received =
                   [&](frames&&) {
                     if (++received == peers)
                       all_there.set_value();
                   },
               .connected = [](process_id) {},
               .disconnected = [](process_id, const std::string&) {}});
  cluster::bus_zmq hub({});
  hub.start({.received = [](frames&&) {},
             .connected =
                 [&](process_id) {
                   if (++ups == peers)
                     all_up.set_value();
                 },
             .disconnected = [](process_id, const std::string&) {}});
  for (std::uint32_t i = 1; i <= peers; ++i)
    REQUIRE(hub.connect(process_id{i}, *endpoint));
  REQUIRE(all_up.get_future().wait_for(scaled(60s)) == std::future_status::ready);
  const auto f = encode({}, batch_of(1, 16));
  for (std::uint32_t i = 1; i <= peers; ++i)
    CHECK(hub.send(process_id{i}, f) == sent::ok);
  CHECK(all_there.get_future().wait_for(scaled(60s)) == std::future_status::ready);
  hub.stop();
  there.stop();
}
