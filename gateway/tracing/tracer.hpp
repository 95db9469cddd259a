// Chooses the requests to trace, and queues their traces for the export thread (span_exporter). The
// queue is bounded; actors and servers never wait here. Any thread.
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

// Traces in the queue: as many as OpenTelemetry's queues hold spans (2048). One takes about a
// kilobyte.
inline constexpr std::size_t traces_waiting_max = 2048;

class tracer;

// The trace of one open request. It travels with the request and ends when the last owner drops it.
// Each request thus has exactly one server span, however it ends.
class open_trace {
public:
  open_trace(std::shared_ptr<tracer> to, request_trace begun);
  ~open_trace();
  open_trace(const open_trace&) = delete;
  open_trace& operator=(const open_trace&) = delete;

  request_trace data;

private:
  std::shared_ptr<tracer> to_;
};
// Null: not traced.
using trace_handle = std::shared_ptr<open_trace>;

struct tracer_settings {
  double sampling_ratio = 1; // of traces that begin here
  std::size_t waiting_max = traces_waiting_max;
  std::function<std::uint64_t()> random{}; // for ids; empty: the system's entropy
};

class tracer : public std::enable_shared_from_this<tracer> {
public:
  using instant = request_trace::instant;
  explicit tracer(tracer_settings settings);

  // Begins a span below the caller's, if the caller samples its trace; without a caller a new
  // trace, if it is sampled. Null: not traced.
  trace_handle begin(const std::optional<trace_parent>& caller, std::string_view protocol,
                     instant now);

  // For the exporter. Returns up to `most` ended traces, oldest first, at `until`; with `is_eager`
  // as soon as the queue is half full.
  std::vector<request_trace> take(std::size_t most, instant until, bool is_eager);
  // The spans dropped by a full queue since the last call.
  std::uint64_t take_dropped() noexcept { return dropped_.exchange(0); }
  // No more requests come: a waiting `take` returns, and later ones wait only for open requests.
  void drain();
  bool is_draining() const;
  // Draining, with nothing queued and nothing open.
  bool is_drained() const;
  // The exporter has stopped: queued and later traces are dropped.
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
