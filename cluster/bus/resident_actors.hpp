// Actors that live on the bus's thread: it runs them behind the messages that it has brought them,
// instead of waking a worker for that. On a machine whose cores all compute, each thread that a
// message passes through costs the compute a change of threads there and one back.
//
// For actors that are quick: whatever a resident waits for, the bus waits for. What others send
// them is run by the workers, as ever; an actor runs in one place at a time, wherever that is.
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>

#include <unordered_set>
#include <vector>

namespace baton::cluster {

class resident_actors final : public caf::execution_unit {
public:
  // `messages_per_turn`: that one of them takes before the others have their turn.
  resident_actors(caf::actor_system& system, std::size_t messages_per_turn);
  // What was not run is left to the workers. Requires: the bus's thread has ended, or is this one.
  ~resident_actors() override;
  resident_actors(const resident_actors&) = delete;
  resident_actors& operator=(const resident_actors&) = delete;

  // Only before the bus starts.
  template <class Handle>
  void add(const Handle& actor) {
    residents_.insert(dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(actor)));
  }

  // Called by the bus's thread, and by no other: one turn of each that has messages. Whether there
  // is more to do.
  bool run();

  // Of the thread that calls: null, unless it is a bus's that has called run() before.
  static caf::execution_unit* here() noexcept;

  void exec_later(caf::resumable* actor) override;

private:
  const std::size_t messages_per_turn_;
  std::unordered_set<const caf::resumable*> residents_; // whoever added them owns them
  std::vector<caf::resumable*> waiting_;                // a reference each
};

} // namespace baton::cluster
