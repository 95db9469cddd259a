// Interfaces that write a response in the format of the called API. Pure: http_answers sends it.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// How an API words its errors, as HTTP answers.
struct api_family {
  std::string_view error_name; // of its schema in /openapi.json
  nlohmann::ordered_json (*error_schema)();
  http_reply (*refusal)(const rejected& no, int overload_status); // before the request is opened
  http_reply (*failure)(const error& e); // of a request that was opened, or at once
};

// "stop", "length"
constexpr std::string_view finish_name(finish how) noexcept {
  switch (how) {
  case finish::stop:
    return "stop";
  case finish::length:
    return "length";
  case finish::cancelled:
    return "cancelled";
  case finish::failed:
    return "error";
  case finish::none:
    break;
  }
  return "";
}

// An error that ends the answer, if this chunk carries one: failed, or cancelled by the server.
inline std::optional<error> failure_of(const chunk& c) {
  if (c.finish != finish::failed && c.finish != finish::cancelled) {
    return std::nullopt;
  }
  if (c.failure) {
    return c.failure;
  }
  return c.finish == finish::cancelled ? fail(errc::cancelled, "the request was cancelled")
                                       : fail(errc::internal, "the request failed");
}

// The times of a request's steps, as the gateway saw them.
struct reply_times {
  using clock = std::chrono::steady_clock;
  clock::time_point read;    // the end of its header
  clock::time_point opened;  // checked and sent to the pipeline client
  clock::time_point granted; // its ticket
  clock::time_point ended;
};

struct reply_identity {
  ticket_id ticket;
  std::int64_t created = 0; // seconds since 1970
  std::string fingerprint;
  std::uint64_t resume_key = 0;
  reply_times times{}; // of a stream, up to its ticket
};

// Collects the chunks of a response that is sent in one piece.
class unary_writer {
public:
  virtual ~unary_writer() = default;
  // Requires: failure_of(c) is empty.
  virtual void add(chunk c) = 0;
  virtual bool is_complete() const noexcept = 0;
  // Requires: is_complete.
  virtual http_reply reply(const reply_identity& who, const reply_times& when) const = 0;
};

// Writes a response piece by piece, usually as server-sent events (WHATWG HTML, section 9.2).
// Exactly one event is the last one or an error.
class stream_writer {
public:
  virtual ~stream_writer() = default;
  // Requires: failure_of(c) is nothing.
  virtual void add(const chunk& c, std::string& out) = 0;
  // The stream has migrated: its client resumes by this ticket from now on.
  virtual void moved_to(const granted& g) = 0;
  // Allowed any time before the end.
  virtual void fail(const error& e, std::string& out) = 0;
  virtual bool has_ended() const noexcept = 0;
  virtual bool has_failed() const noexcept { return false; } // overridden where a caller needs it
  // The format cannot express the failure: the connection is cut before the end of the response.
  virtual bool is_broken() const noexcept { return false; }
};

// Writes the pieces of a worker model's answer: as they come, or all of them at the end.
class worker_writer {
public:
  virtual ~worker_writer() = default;
  // The next piece's part of the answer's body. Requires: the piece has no failure. Errors: a piece
  // that this API cannot express; the answer ends with it.
  virtual result<std::string> take(inferred piece) = 0;
  // Status, content type and headers, without a body: asked once, when the first piece has been
  // taken, or the last one where nothing goes out before.
  virtual http_reply head() const = 0;
  // Each piece is sent at once, as a separate chunk.
  virtual bool is_streamed() const noexcept = 0;
  // The end of an answer that fails after its first piece; empty: the format has none, and the
  // connection is cut before the answer's end.
  virtual std::string failure_tail(const error&) const { return {}; }
};

} // namespace baton::gateway
