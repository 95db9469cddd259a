// What has come for one request and waits to be read, and how to ask for the rest of it when the
// door was lost in the middle. Used by connection, with its lock held.
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

// Credit goes back when a message has arrived here, so that a stream which nobody reads never holds
// up its siblings; its own inbox has a bound.
class inbox {
public:
  inbox() = default;
  explicit inbox(message question);

  void grant(const granted& m);
  // Errors: slow_reader; bad_frame if there is no such choice.
  result<void> put(message m, std::size_t bytes);
  std::optional<message> take();
  bool is_empty() const noexcept { return arrived_.empty(); }

  // What to ask a door that knows nothing of it. None: nothing is missing; or `ended` says why the
  // rest cannot be asked for.
  std::optional<message> rest(std::uint64_t request);
  bool is_over() const noexcept { return is_over_; }
  bool is_inference() const noexcept { return is_inference_; } // it has no ticket

  ticket_id ticket;
  bool cancel_wanted = false; // said as soon as the ticket is known to this connection
  bool is_forgotten = false;  // nobody reads it: kept until the door has ended it
  std::optional<error> ended; // by us: the answer to a take when all that arrived is taken

private:
  struct delivery {
    message content;
    std::size_t size_bytes = 0;
  };
  std::optional<message> question_; // until the door has taken it up
  std::uint64_t resume_key_ = 0;
  std::vector<resume_point> places_; // of a generation: what has arrived of each choice
  std::deque<delivery> arrived_;
  std::size_t unread_bytes_ = 0;
  bool is_over_ = false;
  bool is_inference_ = false;
  bool has_begun_ = false; // an answer in pieces
};

} // namespace baton::sdk
