// Keeps a worker model's answers in the order of its requests (preserve_ordering): pieces of later
// answers are held until all earlier answers have left. Pure.
//
//   enter --> behind others --all before it have left--> first: its pieces are delivered at once
//   any --leave--> gone
#pragma once

#include "gateway/base/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

namespace baton::gateway {

inline constexpr std::size_t held_answer_bytes_max = 64u << 20; // of one model

class answer_order {
public:
  struct held {
    std::uint64_t request = 0;
    stream_event event;
    bool is_last = false;
  };

  // Adds a request. The order of the calls is the order of the answers.
  void enter(std::uint64_t request);
  bool is_known(std::uint64_t request) const { return positions_.contains(request); }
  // Whether its pieces can be delivered at once: it is the first, and no piece of it is held.
  bool can_deliver(std::uint64_t request) const;
  // False: no room. Requires: is_known(piece.request).
  bool hold(held piece);
  // The request has ended, or has no client any more: its held pieces are dropped.
  void leave(std::uint64_t request);
  // The next held piece of the first request, if there is one.
  std::optional<held> next();

  std::size_t held_bytes() const noexcept { return bytes_; }

private:
  std::map<std::uint64_t, std::deque<held>> queue_; // by position
  std::unordered_map<std::uint64_t, std::uint64_t> positions_;
  std::uint64_t entered_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace baton::gateway
