// Actors pinned to the bus's thread. It runs them after the messages that it has delivered to them,
// instead of waking a CAF worker. On a machine whose cores all compute, each thread that a message
// passes through costs the compute two context switches.
//
// Pinned actors must be quick: while one of them blocks, the bus blocks. CAF workers run them for
// messages from elsewhere; an actor never runs on two threads at once.
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>

#include <unordered_set>
#include <vector>

namespace baton::cluster {

class pinned_actors final : public caf::execution_unit {
public:
  // `messages_per_round`: the maximum for one actor before the next one runs.
  pinned_actors(caf::actor_system& system, std::size_t messages_per_round);
  // Leaves pending actors to CAF's workers. Requires: the bus's thread has ended, or is this one.
  ~pinned_actors() override;
  pinned_actors(const pinned_actors&) = delete;
  pinned_actors& operator=(const pinned_actors&) = delete;

  // Before the bus starts only.
  template <class Handle>
  void add(const Handle& actor) {
    actors_.insert(dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(actor)));
  }

  // For the bus's thread only: runs each actor with messages once. Returns whether work is left.
  bool run();

  // The instance of the calling thread: null, unless that thread has called run().
  static caf::execution_unit* here() noexcept;

  void exec_later(caf::resumable* actor) override;

private:
  const std::size_t messages_per_round_;
  std::unordered_set<const caf::resumable*> actors_; // not owned
  std::vector<caf::resumable*> waiting_;             // one reference each
};

} // namespace baton::cluster
