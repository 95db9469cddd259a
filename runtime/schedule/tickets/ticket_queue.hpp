// Tickets with slots and tickets that wait for one: the queue ahead of a newcomer. Updated as
// tickets change, so that a query has constant cost. Pure.
#pragma once

#include "runtime/schedule/sequences/sequence.hpp"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace baton::schedule {

// A ticket's state in the queue.
struct queued_ticket {
  std::int32_t priority = 0;
  std::uint32_t choices_open = 0;
  std::uint64_t tokens_estimate = 0;
  bool has_started = false; // one of its choices has run
  friend bool operator==(const queued_ticket&, const queued_ticket&) = default;
};

// Tickets that wait for a slot.
struct queue_figures {
  std::uint32_t tickets = 0;
  std::uint64_t tokens = 0;
  std::uint32_t slots_left = 0; // 0 if any ticket waits
  friend bool operator==(const queue_figures&, const queue_figures&) = default;
};

class ticket_queue {
public:
  // Inserts the ticket or updates its state.
  void put(ticket_id id, const queued_ticket& now);
  // The ticket has ended, or is suspended.
  void remove(ticket_id id);
  // The waiting tickets ahead of a newcomer with this priority. Slots of tickets behind it count as
  // available.
  queue_figures look(std::int32_t priority, std::uint32_t slots) const;
  std::size_t size() const noexcept { return all_.size(); }
  const queued_ticket* find(ticket_id id) const;

private:
  struct sums {                // sums over one priority
    std::uint32_t taken = 0;   // slots of tickets that have started
    std::uint32_t tickets = 0; // tickets that have not started
    std::uint32_t choices = 0; // choices of these tickets
    std::uint64_t tokens = 0;
  };

  std::unordered_map<ticket_id, queued_ticket> all_;
  std::map<std::int32_t, sums> sums_;
  std::map<service_order, queued_ticket> waiting_; // have not started
};

} // namespace baton::schedule
