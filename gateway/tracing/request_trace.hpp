// The trace of one request, and its spans. The server's span is named by OpenTelemetry's
// conventions for generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/).
// Its child spans are the phases of the request. Losses and resumptions are events of the server's
// span. Pure: time is an argument.
//
//   chat smollm2   +------------------------------------------+
//     queue        +---+                                         until its ticket
//     prefill          +-------+                                 until its first token
//     decode                   +------------------------------+  until its last one
//
// A request to a worker model has `infer` instead of the last two, from its first batch on.
#pragma once

#include "gateway/base/streams.hpp"
#include "gateway/tracing/span.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// Per request: a pipeline that fails again and again would leave too many.
inline constexpr std::size_t trace_events_max = 64;
// The bound of an event's reason, and of a client's model name.
inline constexpr std::size_t trace_text_bytes_max = 256;

class request_trace {
public:
  using instant = std::chrono::steady_clock::time_point;

  // gen_ai.operation.name. `unread` has none: the request was refused before it was parsed.
  enum class operation : std::uint8_t {
    unread,
    chat,
    text_completion,
    resume,
    tokenize,
    detokenize,
    infer,
    embeddings
  };

  // Its own span, for references of other spans.
  trace_parent self;
  std::optional<span_id> parent; // the caller's span
  // The request's terms.
  std::string protocol;
  std::string route; // if refused unread
  operation asks = operation::unread;
  std::string requested_model; // empty: not named
  std::string model;           // the model that serves it
  std::optional<std::uint32_t> max_tokens;
  double temperature = 1;
  double top_p = 1;
  std::int32_t top_k = 0;
  // Its arrival, by both clocks.
  instant arrived_at{};
  std::uint64_t arrived_unix_nanos = 0;

  void asks_for(operation what, std::string_view model_named);
  // Records the terms of a generation.
  void asks_for(const generate& request);
  // It passed all checks and was sent to its pipeline client.
  void opened(std::string model_found, std::uint32_t choices_count);
  // Records an event of its stream.
  void take(const stream_event& e, instant now);
  // A worker begins it, which ends its queue phase. A second call: another worker continues it.
  void begun(instant now);
  // Adds an event; `name` is a literal.
  void note(std::string_view name, std::string_view reason, instant now);
  // Its client cancelled or disconnected.
  void left(cancel_reason why, instant now);
  // It ended with this error, unless it had ended before: the first end counts.
  void failed_by(errc code, instant now);
  // Its client gets this error instead of any earlier end.
  void cut_off(errc code, instant now);
  // It was refused unread, with this HTTP status.
  void refused_with(int http_status, instant now);
  bool has_ended() const noexcept { return ended_at_.has_value(); }

  std::vector<span> spans() const;
  std::size_t span_count() const noexcept; // of spans()

private:
  struct choice_ends {
    std::uint32_t tokens = 0;
    finish how = finish::none;
  };
  struct event {
    instant at;
    std::string_view name;
    std::string reason;
  };

  void take_chunk(const chunk& c, instant now);
  void take_answer(const stream_event& e, instant now);
  bool has_child_spans() const noexcept; // below the server's span
  std::uint64_t unix_nanos_of(instant at) const noexcept;
  std::vector<span_attribute> attributes() const;
  void add_usage(std::vector<span_attribute>& to) const;
  std::string name() const;
  span child(std::uint8_t number, std::string_view name, instant begin, instant end) const;

  bool is_open_ = false;
  std::vector<choice_ends> choices_;
  std::optional<instant> granted_at_;
  std::optional<instant> first_token_at_;
  std::optional<instant> ended_at_;
  ticket_id ticket_;
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t cached_tokens_ = 0;
  std::string failure_; // the errc's name, or an HTTP status
  int http_status_ = 0; // if refused unread
  std::vector<event> events_;
  std::uint32_t events_dropped_ = 0;
};

} // namespace baton::gateway
