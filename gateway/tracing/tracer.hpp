// Who is traced, and what has been traced until somebody sends it: a bounded queue between the
// actors and doors, which never wait here, and the one thread that exports (span_exporter). Any
// thread.
#pragma once

#include "gateway/tracing/request_trace.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace baton::gateway {

// Requests that wait to be sent: as many spans as OpenTelemetry's own queues hold (2048), and what
// belongs to them. One is a kilobyte.
inline constexpr std::size_t traces_waiting_max = 2048;

class tracer;

// One request's trace while it is open: handed on with the request, and over when the last owner
// drops it. So there is exactly one span of the server for each, however it ends.
class open_trace {
public:
  open_trace(std::shared_ptr<tracer> to, request_trace begun);
  ~open_trace();
  open_trace(const open_trace&) = delete;
  open_trace& operator=(const open_trace&) = delete;

  request_trace what;

private:
  std::shared_ptr<tracer> to_;
};
// Null: this one is not traced.
using trace_handle = std::shared_ptr<open_trace>;

struct tracer_settings {
  double sampling_ratio = 1; // of traces that begin here
  std::size_t waiting_max = traces_waiting_max;
  std::function<std::uint64_t()> random{}; // for ids; none: of the system's entropy
};

class tracer : public std::enable_shared_from_this<tracer> {
public:
  using instant = request_trace::instant;
  explicit tracer(tracer_settings settings);

  // A span below the caller's, if the caller samples its trace; else the first one of a trace of
  // its own, if it is drawn. Null: it is not to be traced.
  trace_handle begin(const std::optional<trace_parent>& caller, std::string_view door, instant now);

  // The exporter's side. Up to `most` of those that have ended, oldest first, which gather until
  // then; if `is_eager`, until the queue is half full.
  std::vector<request_trace> take(std::size_t most, instant until, bool is_eager);
  // Spans of requests that found the queue full, since this was asked last.
  std::uint64_t take_dropped() noexcept { return dropped_.exchange(0); }
  // No more requests will come: who waits in `take` wakes, and waits again only for open ones.
  void drain();
  bool is_draining() const;
  // Draining, nothing waits and nothing is open.
  bool is_drained() const;
  // Nobody takes any more: what waits, and what comes, is dropped.
  void close();

private:
  friend class open_trace;
  void end(request_trace ended);

  const tracer_settings settings_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<request_trace> waiting_;
  std::size_t open_ = 0;
  bool is_draining_ = false;
  bool is_closed_ = false;
  std::atomic<std::uint64_t> dropped_{0};
};

} // namespace baton::gateway
