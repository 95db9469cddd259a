// Shared by the scenarios: seeds, requests, faults, and the checks at the end.
#pragma once

#include "tests/sim/options.hpp"
#include "tests/sim/world.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <set>

namespace baton::sim {

using namespace std::chrono_literals;

// Simulated: heartbeat timeouts, back-offs and recomputation all fit in.
inline constexpr auto patience = 180s;

// Runs `scenario` for the chosen seed, or for one in `stride` of all.
void for_seeds(const std::function<void(std::uint64_t)>& scenario, std::uint64_t stride = 1);

// Often with a prefix that others share; never one that begins with `poison`.
ids_prompt some_prompt(world& w);
client_plan some_plan(world& w);
inline constexpr token_id poison = 7;
// A micro-batch with the beginning of a poisonous prompt.
bool carries_poison(const micro_batch& batch);

std::vector<process_id> all_processes(const world& w);
process_id some_shard(world& w);

// Clients come and go while `fault` strikes now and then; processes that are down restart.
void live_through(world& w, int strikes, const std::function<void()>& fault);

void check_promises(world& w);
// Every client has its end, the cluster is ready, and nothing is held for anyone.
void check_rest(world& w);
// Errors with which streams may end after temporary losses of links or processes.
inline const std::set<errc> after_losses{
    errc::pipeline_lost, errc::quarantined,   errc::not_ready,        errc::overloaded,
    errc::link_down,     errc::queue_timeout, errc::ticket_not_found, errc::deadline_exceeded};
// Clients that stayed failed with these errors only.
void check_failures(world& w, const std::set<errc>& excusable);

} // namespace baton::sim
