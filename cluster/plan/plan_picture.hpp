// The drawing below the table of `cluster plan`: the machines with their measurements, and the path
// of a token through the stages. Pure.
#pragma once

#include "cluster/plan/plan.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace baton::cluster {

// One line per machine: cores, memory, read speed, link to the root's machine. Unmeasured values
// are left out.
std::string machines_text(const machines& known);

// The same as a JSON array.
nlohmann::ordered_json machines_json(const machines& known);

// The path of a token: one line per stage with its layers, and between machines the delay that the
// link adds to a row.
std::string plan_picture(const cluster_plan& plan, const model::description& model,
                         const machines& known);

} // namespace baton::cluster
