// What every actor does with what nobody foresaw: an exception that got out of a handler, a message
// it does not take.
#pragma once

#include <caf/all.hpp>

namespace baton::actors {

// Logs the exception and ends the actor with an error, so that its supervisor sees it go; logs only
// the type of an unexpected message (its content may be a prompt). Call first in every actor.
void install_fault_handlers(caf::scheduled_actor* self);

} // namespace baton::actors
