// The epochs of the scheduler actor: when one opens, closes, and gives way to the next generation.
// It connects the states of actors/pipeline.hpp to the scheduler and to messages.
#pragma once

#include "actors/scheduler.hpp"

#include <string>

namespace baton::actors {

// Opens an epoch if possible. Names the blocks that new shards can take over, or none if there are
// too many to name.
void try_open(scheduler_pointer self);
// Switches to another generation between two micro-batches: in-flight steps end first, and no
// others follow. A step that never returns closes the epoch as usual (step_timeout).
void switch_if_due(scheduler_pointer self);
// Reports requests for a model that is not loaded, so that the root loads it.
void ask_to_load(scheduler_pointer self);
// The root cannot load the model.
void on_load_refused(scheduler_pointer self, const load_refused& m);
// Closes an epoch whose step or opening is late, and opens the next one when its pause is over.
void end_late_epochs(scheduler_pointer self);

// The root's complete plan.
void on_generations(scheduler_pointer self, const generations& m);
void on_ready(scheduler_pointer self, const stage_ready& m);
void on_opened(scheduler_pointer self, const epoch_opened& m);
void on_peer_up(scheduler_pointer self, const peer_up& m);
void on_peer_down(scheduler_pointer self, const peer_down& m);

} // namespace baton::actors
