// A process with a message router over real ZeroMQ inside the test: a ticker thread, and waits for
// conditions with a deadline instead of sleeps.
#pragma once

#include "cluster/bus/bus_zmq.hpp"
#include "cluster/bus/message_router.hpp"
#include "tests/support/deadline_scale.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::testing {

inline constexpr actor_id echo_box{1};  // sends everything back to its source actor
inline constexpr actor_id reply_box{2}; // receives answers

struct live_options {
  cluster::bus_zmq_options bus;
  cluster::message_router_options links;
  std::chrono::milliseconds tick{5};
};

// Data of one row: activations, all `number`.
inline message batch_of(std::uint64_t number, std::size_t floats) {
  micro_batch m;
  m.batch = {number};
  m.tokens = {1};
  auto rows = std::make_shared<std::vector<float>>(floats, static_cast<float>(number));
  m.activations = {rows, reinterpret_cast<const std::byte*>(rows->data()), floats * 4};
  return m;
}

class live_process {
public:
  // ENSUREs that the endpoint can be bound.
  live_process(process_id process, incarnation_id incarnation, const std::string& endpoint,
               live_options o = {})
      : bus(o.bus), tick_(o.tick) {
    auto bound = bus.bind(endpoint);
    ENSURE(bound, "cannot bind {}", endpoint);
    hello self;
    self.process = process;
    self.incarnation = incarnation;
    self.name = fmt::format("node-{}", process.value);
    self.endpoint = *bound;
    links = std::make_unique<cluster::message_router>(bus, self, o.links);
    links->publish(echo_box, [this](const envelope& e, message&& m) {
      links->post(e.source, e.source_actor, std::move(m), echo_box, e.correlation);
    });
    links->publish(reply_box, [this](const envelope& e, message&& m) {
      note([&] {
        ++replies;
        last = e;
        last_message = std::move(m);
      });
    });
    links->on_peer_up([this](const hello& h) {
      note([&] {
        ++ups;
        last_up = h;
      });
    });
    links->on_peer_down([this](process_id, incarnation_id e, const std::string& why) {
      note([&] {
        ++downs;
        last_down = e;
        last_why = why;
      });
    });
    links->start();
    ticker_ = std::thread([this] { tick_loop(); });
  }

  ~live_process() {
    note([&] { is_ending_ = true; });
    ticker_.join();
    links->stop();
  }

  std::string endpoint() const { return links->self().endpoint; }

  // True once the condition holds, false after ten seconds (scaled). The condition sees a stable
  // state.
  bool wait(const std::function<bool()>& condition,
            std::chrono::milliseconds patience = scaled(std::chrono::seconds{10})) {
    std::unique_lock lock(mutex);
    return changed_.wait_for(lock, patience, condition);
  }
  bool wait_up(int times = 1) {
    return wait([&] { return ups >= times; });
  }
  int count(int live_process::*what) {
    std::lock_guard lock(mutex);
    return this->*what;
  }

  std::mutex mutex;
  int ups = 0;
  int downs = 0;
  int replies = 0;
  hello last_up;
  incarnation_id last_down;
  std::string last_why;
  envelope last;
  message last_message;
  cluster::bus_zmq bus;
  std::unique_ptr<cluster::message_router> links;

private:
  void note(const std::function<void()>& what) {
    {
      std::lock_guard lock(mutex);
      what();
    }
    changed_.notify_all();
  }
  void tick_loop() {
    std::unique_lock lock(mutex);
    while (!changed_.wait_for(lock, tick_, [this] { return is_ending_; })) {
      lock.unlock();
      links->tick(std::chrono::steady_clock::now());
      changed_.notify_all(); // counters may have changed
      lock.lock();
    }
  }

  std::condition_variable changed_;
  bool is_ending_ = false;
  std::chrono::milliseconds tick_;
  std::thread ticker_;
};

} // namespace baton::testing
