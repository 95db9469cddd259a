// Interfaces that write a response in the format of the called API. Pure: http_answers sends it.
#pragma once

#include "gateway/base/http_text.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <string>

namespace baton::gateway {

enum class api_family : std::uint8_t { openai, tgi, torchserve, kserve };

struct reply_identity {
  ticket_id ticket;
  std::int64_t created = 0; // seconds since 1970
  std::string fingerprint;
  std::uint64_t resume_key = 0;
};

// The times of a request's steps, as the gateway saw them.
struct reply_times {
  using clock = std::chrono::steady_clock;
  clock::time_point read;    // the end of its header
  clock::time_point opened;  // checked and sent to the pipeline client
  clock::time_point granted; // its ticket
  clock::time_point ended;
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

} // namespace baton::gateway
