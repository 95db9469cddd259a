// Default handling in every actor of exceptions that leave a handler and of unexpected messages.
#pragma once

#include <caf/all.hpp>

namespace baton::actors {

// Logs the exception and ends the actor with an error, which its supervisor sees. For an
// unexpected message only the type is logged (its content may be a prompt). Call first in every
// actor.
void install_fault_handlers(caf::scheduled_actor* self);

} // namespace baton::actors
