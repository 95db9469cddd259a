// Asks a model.py of Triton's Python backend what it adds to its configuration. The hook,
// auto_complete_config, is Python, so a process runs it, as in Triton
// (sdk/python/baton_worker/triton_complete.py).
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace baton::cluster {

inline constexpr std::chrono::seconds auto_complete_max{30};

struct auto_completion {
  std::string fields{};     // of config.pbtxt, in its format; empty: nothing to add
  std::string unanswered{}; // why the model could not be asked here; empty: it was
};

// `digest` identifies the content of the model's files: the same content is asked once for the life
// of this process. 0: not known, asked each time. A file without auto_complete_config costs no
// process. Thread-safe; takes up to auto_complete_max. Errors: bad_config (the model raises).
result<auto_completion> ask_auto_complete(const std::filesystem::path& file, std::uint64_t digest);

} // namespace baton::cluster
