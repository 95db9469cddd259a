// Who has slots and who waits for one, by ticket: what is before a newcomer. Kept as tickets
// change, so that to ask it costs the same however many there are. Pure.
#pragma once

#include "runtime/schedule/sequence.hpp"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace baton::schedule {

// Of one ticket.
struct queued_ticket {
  std::int32_t priority = 0;
  std::uint32_t choices_open = 0;
  std::uint64_t tokens_estimate = 0;
  bool has_started = false; // one of its choices has been running
  friend bool operator==(const queued_ticket&, const queued_ticket&) = default;
};

// For which there is no slot.
struct queue_figures {
  std::uint32_t tickets = 0;
  std::uint64_t tokens = 0;
  std::uint32_t slots_left = 0; // 0 if anyone waits
  friend bool operator==(const queue_figures&, const queue_figures&) = default;
};

class ticket_queue {
public:
  // As the ticket is now; before, it may have been here as it was then.
  void put(ticket_id id, const queued_ticket& now);
  // It has ended, or waits for somebody and not for a slot.
  void remove(ticket_id id);
  // The tickets for which there is no slot, in the order in which they will get one: those that a
  // newcomer of this priority has before it. It has the slots of the others behind it.
  queue_figures look(std::int32_t priority, std::uint32_t slots) const;
  std::size_t size() const noexcept { return all_.size(); }
  const queued_ticket* find(ticket_id id) const;

private:
  struct sums {                // of one priority
    std::uint32_t taken = 0;   // slots, by those that have started
    std::uint32_t tickets = 0; // that have not, and their
    std::uint32_t choices = 0;
    std::uint64_t tokens = 0;
  };

  std::unordered_map<ticket_id, queued_ticket> all_;
  std::map<std::int32_t, sums> sums_;
  std::map<turn, queued_ticket> waiting_; // have not started
};

} // namespace baton::schedule
