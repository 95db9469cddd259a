// One open request, shared by a server and the pipeline client (the gateway actor). The actor
// pushes and never waits; the server takes and never blocks an actor. Bounded by bytes: a slow
// reader costs only its own stream.
//
//   open --push within the bound--> open
//   open --push of a last event---> ended      (finish of all choices, rejected, failed, answer)
//   open --push beyond the bound--> cut        (holds one failed{slow_reader} as its last event)
//   any  --detach by the server---> detached   (pushes are dropped)
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

// The one terminal error of a stream that was accepted.
struct failed {
  error reason;
};

using stream_event =
    std::variant<granted, rejected, chunk, tokenized, detokenized, failed, inferred, model_changed>;

// Bytes of an event in a stream's bound: its text and a flat charge for the rest.
std::size_t bytes_of(const stream_event& e) noexcept;

class stream {
public:
  // `number` is the gateway's number of the request. wake_reader calls `wake` from any thread,
  // under the stream's lock: it must return at once and not call back.
  stream(std::uint64_t number, std::size_t buffer_max_bytes, std::function<void()> wake);

  std::uint64_t number() const noexcept { return number_; }

  // When work on it began; any thread. Before that: the epoch of the clock.
  using instant = std::chrono::steady_clock::time_point;
  void begun(instant at) noexcept { begun_at_ = at; }
  instant begun_at() const noexcept { return begun_at_; }

  // For the writer. False: this push exceeded the bound and the stream is cut. The reader sees
  // events after wake_reader. It is called once for all events and all streams of a step, so that
  // the reader's thread wakes once.
  bool push(stream_event e);
  void wake_reader();

  // For the reader. The next event, unless it is a chunk of more than `max_tokens` tokens.
  std::optional<stream_event> next(std::uint32_t max_tokens = UINT32_MAX);
  // True for a slow reader: only the terminal error is left.
  bool is_cut() const noexcept { return is_cut_; }
  // The reader leaves: no wake comes after it returns.
  void detach();
  // Whether the reader has left.
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

// The streams that an actor has pushed to while it handled one message. Their readers wake at its
// end, once for all events. By then the metrics count the events, so a client that reads its answer
// and then the metrics finds it counted.
class pushed_streams {
public:
  void add(std::shared_ptr<stream> s) { all_.push_back(std::move(s)); }
  void wake_readers();

private:
  std::vector<std::shared_ptr<stream>> all_; // since the last wake_readers
};

} // namespace baton::gateway
