// Before shards start: are the devices there that have engines in libraries? Asked of `cluster
// doctor --device` in a process of its own, because a library brings along drivers and half a
// gigabyte of torch, and may crash or hang; nothing of it stays in the one that asks.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/files/run_dir.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace baton::cluster {

inline constexpr std::chrono::seconds device_answer_max{60}; // a cold torch takes some of them

// What whoever misses this engine does.
const char* fix_of(const device& where) noexcept;

// Of the stages of its models, the most that meet.
std::uint32_t ranks_max(const cluster_config& config) noexcept;

// Of one of its nodes: how many ranks of a stage have this device together, at most. Pure.
std::uint32_t ranks_on_device(const cluster_config& config, const node_config& node,
                              std::string_view device);

// Of one of its nodes the devices. Errors: start_failed (names the device, what is wrong with it,
// the fix).
result<void> check_devices(const cluster_config& config, const node_config& node,
                           const run_dir& dir);
// Of the workers of this machine; of its devices it is asked only how many there are. Errors:
// start_failed, bad_config (names `file`, the worker and what is not there).
result<void> check_workers_here(const cluster_config& config, const std::filesystem::path& file);

} // namespace baton::cluster
