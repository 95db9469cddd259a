// The order in which the answers of a worker model leave, where it is that in which its requests
// came (preserve_ordering): pieces of those whose turn it is not yet are held. Pure.
//
//   enter --> behind others --all before it have left--> first: its pieces are told as they come
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

  // The requests are known from here on, in the order of the calls.
  void enter(std::uint64_t request);
  bool is_known(std::uint64_t request) const { return places_.contains(request); }
  // Its pieces need not be held: it is the first, and what was held of it has been told.
  bool is_turn(std::uint64_t request) const;
  // False: there is no room for it. Of a request that is known.
  bool hold(held piece);
  // It has ended, or nobody waits for it: what is held of it is dropped.
  void leave(std::uint64_t request);
  // The next piece of the first, if one is held.
  std::optional<held> next();

  std::size_t held_bytes() const noexcept { return bytes_; }

private:
  std::map<std::uint64_t, std::deque<held>> line_; // by place
  std::unordered_map<std::uint64_t, std::uint64_t> places_;
  std::uint64_t entered_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace baton::gateway
