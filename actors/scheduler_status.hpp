// Reports of the scheduler actor: the model card and the load, to gateways and to the root.
#pragma once

#include "actors/scheduler.hpp"

namespace baton::actors {

// Card and load to one gateway.
void send_status_to(scheduler_pointer self, process_id gateway);
// Card and load to all gateways, phase and reason to the root. On each change of the card.
void publish_status(scheduler_pointer self);
// The load alone, with the share of time in which stages waited. Every report_interval.
void publish_load(scheduler_pointer self);

} // namespace baton::actors
