// Whether a model of a hub runs here: its architecture, its settings and the types of its tensors
// do. The first bytes of its GGUF files are enough for that, so nothing is downloaded in vain.
#pragma once

#include "cluster/hub/pull.hpp"

#include <cstdint>
#include <span>

namespace baton::cluster {

inline constexpr std::uint64_t checked_step_bytes = 256u << 10; // of the first request
inline constexpr std::uint64_t checked_bytes_max = 64u << 20;   // longer ones are not checked

// Reads the header in ranges, each four times as long as the known part. Bytes that are already on
// this machine and directories of safetensors are not checked. A server that fails or has no ranges
// is no error here: the download has its own errors. Errors: unsupported_model, bad_model_file
// (both name what does not run).
result<void> check_header(const pull_plan& plan, const hub_settings& settings,
                          const hub_events& events);

// The same for bytes that are here. `file_bytes`: of the whole file. Errors: not_ready (the header
// goes on behind them), io_failed, and those above.
result<void> check_header_bytes(std::span<const char> beginning, std::uint64_t file_bytes);

} // namespace baton::cluster
