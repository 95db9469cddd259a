// What one request went through, and the spans that it comes to: one of the server, named as
// OpenTelemetry's conventions for generative AI say
// (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/), and below it the stretches
// that a request has. What was lost on the way and gone on with are events of the server's span.
// Pure: time is given.
//
//   chat smollm2   |------------------------------------------|
//     queue        |---|                                         until its ticket
//     prefill          |-------|                                 until its first token
//     decode                   |------------------------------|  until its last one
//
// What a worker model is asked has `infer` below it in place of the last two, from its first batch.
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

// Of one request; a pipeline that falls again and again leaves more than anybody reads.
inline constexpr std::size_t trace_events_max = 64;
// Of a reason that is told with an event, and of a model as a client has named it.
inline constexpr std::size_t trace_text_bytes_max = 256;

class request_trace {
public:
  using instant = std::chrono::steady_clock::time_point;

  // gen_ai.operation.name; of `unread` there is none: it was refused before anybody knew.
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

  // Whose it is: its own span as others would see it.
  trace_parent self;
  std::optional<span_id> parent; // the caller's span
  // What was asked for.
  std::string door;
  std::string route; // of what was refused unread
  operation asks = operation::unread;
  std::string model_asked; // empty: none was named
  std::string model;       // that was found for it
  std::optional<std::uint32_t> tokens_max;
  double temperature = 1;
  double top_p = 1;
  std::int32_t top_k = 0;
  // When it came, by both clocks.
  instant arrived_at{};
  std::uint64_t arrived_unix_nanos = 0;

  void asks_for(operation what, std::string_view model_named);
  // Takes over what a client asks to be generated.
  void asks_for(const generate& request);
  // It was found right and given to a desk, which may go on.
  void opened(std::string model_found, std::uint32_t choices_count);
  // What its stream is told.
  void take(const stream_event& e, instant now);
  // A worker has it: it waits no more. Another one than before: it goes on with that.
  void begun(instant now);
  // What happened to it on the way: `name` is a literal.
  void note(std::string_view name, std::string_view reason, instant now);
  // Its client wants no more of it.
  void left(cancel_reason why, instant now);
  // It ended here for this reason, unless it had ended before: the first one counts.
  void failed_by(errc code, instant now);
  // Its client hears of this in place of whatever end it had.
  void cut_off(errc code, instant now);
  // The status of an HTTP answer that says what was wrong with it.
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
  bool has_stretches() const noexcept; // below the server's span
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
  int http_status_ = 0; // of what was refused unread
  std::vector<event> events_;
  std::uint32_t events_dropped_ = 0;
};

} // namespace baton::gateway
