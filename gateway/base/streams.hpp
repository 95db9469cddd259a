// One open request as a door and the desk (the gateway actor) both see it. The desk pushes and
// never waits; the door takes and never blocks an actor. Bounded by bytes: a reader that falls
// behind costs its own stream, nobody else.
//
//   open --push within the bound--> open
//   open --push of a last event---> ended      (finish of all choices, rejected, failed, answer)
//   open --push beyond the bound--> cut        (holds one failed{slow_reader} as its last event)
//   any  --detach (the door left)-> detached   (pushes are dropped)
#pragma once

#include "schema/messages.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

namespace baton::gateway {

// The one terminal error of a stream that had been accepted.
struct failed {
  error reason;
};

using stream_event =
    std::variant<granted, rejected, chunk, tokenized, detokenized, failed, inferred, model_changed>;

// Bytes that an event counts for in a stream's bound: its text and a flat charge for the rest.
std::size_t bytes_of(const stream_event& e) noexcept;

class stream {
public:
  // `number` is the gateway's number of the request. `wake` is called by wake_door, from any
  // thread, under the stream's lock: it must return at once and not call back.
  stream(std::uint64_t number, std::size_t buffer_max_bytes, std::function<void()> wake);

  std::uint64_t number() const noexcept { return number_; }

  // Somebody has begun to work on it; any thread. Asked before: the epoch of the clock.
  using instant = std::chrono::steady_clock::time_point;
  void begun(instant at) noexcept { begun_at_ = at; }
  instant begun_at() const noexcept { return begun_at_; }

  // Desk's side. False: this push went beyond the bound and the stream is cut. The door sees it
  // after wake_door: once for all that came together, and for all streams of a step in a row, so
  // that the door's thread wakes once.
  bool push(stream_event e);
  void wake_door();

  // Door's side. The next event, unless it is a chunk of more than `tokens_max` tokens.
  std::optional<stream_event> next(std::uint32_t tokens_max = UINT32_MAX);
  // A slow reader's stream: nothing but the terminal error is left in it.
  bool is_cut() const noexcept { return is_cut_; }
  // The door leaves: no wake comes after it returns.
  void detach();
  // Nobody will read it any more.
  bool is_detached() const;

private:
  const std::uint64_t number_;
  const std::size_t buffer_max_bytes_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::deque<stream_event> events_;
  std::size_t buffered_bytes_ = 0;
  std::atomic<bool> is_cut_{false};
  std::atomic<instant> begun_at_{instant{}};
  bool is_detached_ = false;
};

// The streams that an actor has pushed to in one turn. Their doors are woken at its end: for all
// that came together at once, and when what came is counted, so that who has an answer and asks for
// numbers finds it in them.
class pushed_streams {
public:
  void add(std::shared_ptr<stream> s) { all_.push_back(std::move(s)); }
  void wake_doors();

private:
  std::vector<std::shared_ptr<stream>> all_; // since the last wake_doors
};

} // namespace baton::gateway
