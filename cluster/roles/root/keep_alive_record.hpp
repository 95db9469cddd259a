// Clients' `keep_alive` of models on demand, in the run directory: a restarted root goes by it.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "cluster/membership/on_demand_models.hpp"

namespace baton::cluster {

// Errors: io_failed.
result<void> write_keep_alive(const run_dir& dir, const kept_models& kept);
// Empty if nothing is recorded, or if the record cannot be read.
kept_models read_keep_alive(const run_dir& dir);

} // namespace baton::cluster
