// The unread answers of one request, and how to request its rest after a lost connection. Used by
// connection, with its lock held.
//
//   asked --granted--> streaming --a finish of every choice--> over
//     +-----------a refusal, an answer, the last piece---------^
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace baton::sdk {

// Credit is returned when a message arrives here, so an unread stream never blocks the others; its
// own inbox has a bound.
class inbox {
public:
  inbox() = default;
  explicit inbox(message question);

  void grant(const granted& m);
  // Errors: slow_reader; bad_frame if there is no such choice.
  result<void> put(message m, std::size_t bytes);
  std::optional<message> take();
  bool is_empty() const noexcept { return arrived_.empty(); }

  // The message that requests the rest from a new server. None: nothing is missing, or `ended`
  // holds the reason why the rest cannot be requested.
  std::optional<message> rest(std::uint64_t request);
  bool is_over() const noexcept { return is_over_; }
  bool is_inference() const noexcept { return is_inference_; } // it has no ticket

  ticket_id ticket;
  bool cancel_wanted = false; // sent as soon as this connection knows the ticket
  bool is_forgotten = false;  // no longer read: kept until the server has ended it
  std::optional<error> ended; // by us: what take returns once all arrived messages are taken

private:
  struct delivery {
    message content;
    std::size_t size_bytes = 0;
  };
  std::optional<message> question_; // until the server has accepted it
  std::uint64_t resume_key_ = 0;
  std::vector<resume_point> positions_; // of a generation: how much of each choice has arrived
  std::deque<delivery> arrived_;
  std::size_t unread_bytes_ = 0;
  bool is_over_ = false;
  bool is_inference_ = false;
  bool has_begun_ = false; // an answer in pieces
};

} // namespace baton::sdk
