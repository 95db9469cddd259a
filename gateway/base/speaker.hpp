// How the one path behind all APIs speaks to a client: in the words of the API that was called.
// What is said is made here, pure; http_answers sends it.
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

// When the gateway saw what of a request.
struct reply_times {
  using clock = std::chrono::steady_clock;
  clock::time_point read;    // the end of its header
  clock::time_point opened;  // found right, given to the desk
  clock::time_point granted; // a ticket
  clock::time_point ended;
};

// Collects the chunks of a request that is answered in one piece.
class whole_speaker {
public:
  virtual ~whole_speaker() = default;
  // Requires: failure_of(c) is nothing.
  virtual void add(chunk c) = 0;
  virtual bool is_complete() const noexcept = 0;
  // Requires: is_complete.
  virtual http_reply reply(const reply_identity& who, const reply_times& when) const = 0;
};

// Writes an answer piece by piece, most often as server-sent events (WHATWG HTML, section 9.2),
// with exactly one that is the last or an error.
class event_speaker {
public:
  virtual ~event_speaker() = default;
  // Requires: failure_of(c) is nothing.
  virtual void add(const chunk& c, std::string& out) = 0;
  // The stream has moved: it is gone on with by this ticket from here on.
  virtual void moved_to(const granted& g) = 0;
  // Any time before the end.
  virtual void fail(const error& e, std::string& out) = 0;
  virtual bool has_ended() const noexcept = 0;
  virtual bool has_failed() const noexcept { return false; } // where somebody asks
  // It has no words for what went wrong: the connection is cut before the answer's end.
  virtual bool is_broken() const noexcept { return false; }
};

} // namespace baton::gateway
