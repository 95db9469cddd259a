// What `cluster plan` draws below its table: the machines by what they have measured, and the way
// of a token through the stages. Pure.
#pragma once

#include "cluster/plan/plan.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace baton::cluster {

// A line for each machine: cores, memory, how fast it reads, its link to the root's machine. What
// was not measured is left out.
std::string machines_text(const machines& known);

// The same for scripts: an array.
nlohmann::ordered_json machines_json(const machines& known);

// The way of a token, a line for each stage with its part of the layers; between stages of several
// machines what the link adds to a row.
std::string plan_picture(const cluster_plan& plan, const model::description& model,
                         const machines& known);

} // namespace baton::cluster
