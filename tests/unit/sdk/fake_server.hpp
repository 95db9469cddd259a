// A server that follows a script: a ROUTER, and a thread that passes each message to the script.
#pragma once

#include "schema/packet.hpp"

#include <zmq.hpp>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace baton::test {

class fake_server {
public:
  struct peer {
    std::string routing;
    envelope last; // of its last message
    std::uint64_t sequence = 0;
  };
  // Called on the server's thread for each message but hello and heartbeat.
  using script = std::function<void(fake_server&, peer&, const message&)>;

  struct server_options {
    std::uint64_t window_bytes = 1 << 20;
    bool answers_hello = true;
    bool sends_heartbeats = true;
    std::optional<error> refuses_hello = {};
    std::string at = "tcp://127.0.0.1:*";
  };

  explicit fake_server(script answers) : fake_server(std::move(answers), server_options{}) {}
  fake_server(script answers, server_options how)
      : answers_(std::move(answers)), how_(std::move(how)) {
    router_.set(zmq::sockopt::linger, 0);
    router_.bind(how_.at);
    endpoint_ = router_.get(zmq::sockopt::last_endpoint);
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  ~fake_server() { close(); }

  const std::string& endpoint() const { return endpoint_; }

  // Disconnects: the sockets of its clients notice at once.
  void close() {
    if (!thread_.joinable())
      return;
    thread_.request_stop();
    thread_.join();
    router_.close();
    context_.close(); // waits, so that another server may bind its endpoint
  }

  // Sends `m`; returns the bytes of its three parts.
  std::size_t send(peer& to, const message& m) {
    envelope e;
    e.source = {77};
    e.source_incarnation = {88};
    e.target = to.last.source;
    e.target_incarnation = to.last.source_incarnation;
    e.source_actor = {7};
    e.target_actor = to.last.source_actor;
    e.correlation = to.last.correlation;
    e.sequence = ++to.sequence;
    auto made = encode(e, m);
    send_raw(to, made);
    return made.size_bytes();
  }
  void send_raw(peer& to, const frames& made) {
    router_.send(zmq::buffer(to.routing), zmq::send_flags::sndmore);
    zmq::message_t packet(packed_bytes(made));
    pack(made, packet.data<std::byte>());
    router_.send(packet, zmq::send_flags::none);
  }

  // Everything received but heartbeats.
  std::vector<message> received() const {
    std::lock_guard lock(mutex_);
    return received_;
  }
  // Waits at most 5 s until `found` is true of a received message.
  bool has_received(const std::function<bool(const message&)>& found) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds{5}, [&] {
      return std::any_of(received_.begin(), received_.end(), found);
    });
  }

  std::vector<std::string> faults; // protocol errors of the client; read after close()

private:
  void run(std::stop_token stop) {
    while (!stop.stop_requested()) {
      zmq::pollitem_t item{router_.handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, std::chrono::milliseconds{20});
      while (take_one())
        ;
      if (how_.sends_heartbeats)
        for (auto& [routing, p] : peers_)
          if (p.sequence != 0)
            send(p, heartbeat{1, 1});
    }
  }

  bool take_one() {
    zmq::message_t routing;
    zmq::message_t packet;
    if (!router_.recv(routing, zmq::recv_flags::dontwait) ||
        !router_.recv(packet, zmq::recv_flags::dontwait))
      return false;
    auto& from = peers_[routing.to_string()];
    from.routing = routing.to_string();
    const auto f = unpack(packet.data(), packet.size());
    const auto e = f ? decode_envelope(f->head) : f.error();
    const auto m = e ? decode_body(*e, f->body, f->bulk) : e.error();
    if (!m) {
      faults.push_back(m.error().message);
      return true;
    }
    judge(from, *e);
    from.last = *e;
    if (!std::holds_alternative<heartbeat>(*m)) {
      std::lock_guard lock(mutex_);
      received_.push_back(*m);
      changed_.notify_all();
    }
    answer(from, *m);
    return true;
  }

  void judge(const peer& from, const envelope& e) {
    if (e.sequence != from.last.sequence + 1)
      faults.push_back(fmt::format("sequence {} after {}", e.sequence, from.last.sequence));
    if ((e.source.value >> 31) != 1 || !e.source_incarnation)
      faults.push_back("a client's node has the highest bit set, and it has an epoch");
    if (e.sequence > 1 &&
        (e.target != process_id{77} || e.target_incarnation != incarnation_id{88}))
      faults.push_back("after hello, messages are for this life of the door");
  }

  void answer(peer& from, const message& m) {
    if (std::holds_alternative<hello>(m)) {
      if (how_.answers_hello)
        send(from, hello_ack{{77}, {88}, how_.window_bytes, how_.refuses_hello});
    } else if (!std::holds_alternative<heartbeat>(m)) {
      answers_(*this, from, m);
    }
  }

  script answers_;
  server_options how_;
  zmq::context_t context_{1};
  zmq::socket_t router_{context_, zmq::socket_type::router};
  std::string endpoint_;
  std::map<std::string, peer> peers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<message> received_;
  std::jthread thread_;
};

} // namespace baton::test
