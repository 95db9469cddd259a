// Requests named by their clients: a client that repeats a request under the same name, because it
// received no answer, gets the existing ticket. Kept while the ticket is open and for a while after
// its end. Pure; time is an argument.
#pragma once

#include "schema/ids.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace baton::actors {

struct named_request {
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::uint64_t digest = 0; // of the request's content
  std::uint32_t choices = 1;
};

class request_log {
public:
  using time_point = std::chrono::steady_clock::time_point;

  // `window`: from a ticket's end. Above `count_max` the names of the lowest tickets are dropped.
  request_log(std::chrono::milliseconds window, std::size_t count_max)
      : window_(window), count_max_(count_max) {}

  void remember(const std::string& name, const named_request& request, time_point now);
  std::optional<named_request> find(const std::string& name) const;
  // The name of a ticket; empty if it has none.
  std::string name_of(ticket_id ticket) const;
  // The ticket was refused: its name may be used again, for any request.
  void forget(ticket_id ticket);
  void tick(time_point now, const std::function<bool(ticket_id)>& is_open);
  std::size_t size() const noexcept { return names_.size(); }

private:
  struct entry {
    named_request request;
    time_point open_at; // the last tick at which it was open
  };
  std::chrono::milliseconds window_;
  std::size_t count_max_;
  std::map<std::string, entry> names_;
  std::map<ticket_id, std::string> tickets_; // the inverse map
};

} // namespace baton::actors
