// Before shards start, checks that devices with engines in libraries are available. `cluster doctor
// --device` checks in a process of its own: a library loads drivers and half a gigabyte of torch,
// and may crash or hang. Nothing of it stays in the calling process.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/files/run_dir.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace baton::cluster {

inline constexpr std::chrono::seconds device_answer_max{60}; // loading torch from disk is slow

// How to install the device's engine; empty if its library is there.
const char* fix_of(const device& where);

// The largest number of ranks in a stage, over all models.
std::uint32_t ranks_max(const cluster_config& config) noexcept;

// The maximum number of ranks of one stage that share `device` on `node`. Pure.
std::uint32_t ranks_on_device(const cluster_config& config, const node_config& node,
                              std::string_view device);

// Checks the devices of one node. Errors: start_failed (names the device, the error, the fix).
result<void> check_devices(const cluster_config& config, const node_config& node,
                           const run_dir& dir);
// Checks the workers of this machine, but only the number of its GPUs. Errors: start_failed,
// bad_config (names `file`, the worker and the missing device).
result<void> check_workers_here(const cluster_config& config, const std::filesystem::path& file);

} // namespace baton::cluster
