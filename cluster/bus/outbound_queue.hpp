// Messages to one peer under back-pressure, bounded. Used by message_router.cpp under its lock.
#pragma once

#include "schema/codec/codec.hpp"

#include <deque>
#include <vector>

namespace baton::cluster {

struct waiting_message {
  actor_id target;
  actor_id source;
  std::uint64_t correlation = 0;
  message content;
  std::size_t size_bytes = 0; // as encoded
};

// Control messages overtake data: otherwise a credit could wait behind data that waits for it.
struct outbound_queue {
  std::deque<waiting_message> control;
  std::deque<waiting_message> data;
  std::uint64_t bytes = 0;

  std::deque<waiting_message>& of(message_kind kind) { return needs_credit(kind) ? data : control; }
  std::size_t count() const noexcept { return control.size() + data.size(); }

  void push(waiting_message m) {
    bytes += m.size_bytes;
    auto& queue = of(kind_of(m.content));
    queue.push_back(std::move(m));
  }
  // Destroying a message may release a lease, which calls the router. So removed messages go to
  // `to`, and the caller destroys them unlocked.
  void pop(std::deque<waiting_message>& queue, std::vector<message>& to) {
    bytes -= queue.front().size_bytes;
    to.push_back(std::move(queue.front().content));
    queue.pop_front();
  }
  void clear(std::vector<message>& to) {
    while (!control.empty())
      pop(control, to);
    while (!data.empty())
      pop(data, to);
  }
};

} // namespace baton::cluster
