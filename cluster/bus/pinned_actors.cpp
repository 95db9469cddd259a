#include "cluster/bus/pinned_actors.hpp"

#include <caf/intrusive_ptr.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <utility>

namespace baton::cluster {
namespace {

thread_local pinned_actors* of_this_thread = nullptr;

} // namespace

pinned_actors::pinned_actors(caf::actor_system& system, std::size_t messages_per_round)
    : caf::execution_unit(&system), messages_per_round_(messages_per_round) {}

pinned_actors::~pinned_actors() {
  if (of_this_thread == this)
    of_this_thread = nullptr;
  for (auto* actor : waiting_)
    system().scheduler().enqueue(actor);
}

caf::execution_unit* pinned_actors::here() noexcept {
  return of_this_thread;
}

void pinned_actors::exec_later(caf::resumable* actor) {
  if (actors_.contains(actor))
    waiting_.push_back(actor);
  else
    system().scheduler().enqueue(actor);
}

bool pinned_actors::run() {
  of_this_thread = this;
  for (auto* actor : std::exchange(waiting_, {})) {
    switch (actor->resume(this, messages_per_round_)) {
    case caf::resumable::resume_later:
      waiting_.push_back(actor);
      break;
    case caf::resumable::awaiting_message:
    case caf::resumable::done:
    case caf::resumable::shutdown_execution_unit: // meant for workers, which then end
      caf::intrusive_ptr_release(actor);
      break;
    }
  }
  return !waiting_.empty();
}

} // namespace baton::cluster
