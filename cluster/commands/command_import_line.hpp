// Imports another server's start command, or a compose file with one, for this machine. Notes what
// the machine lacks and leaves it out.
#pragma once

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/import/launch_line.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace baton::cluster {

// The NVIDIA devices of this machine, if the engine for them is installed.
std::uint32_t usable_gpus();

// None if `file` is no compose file. `service`: which of several. Errors: io_failed, bad_config.
result<std::optional<launch_line>> line_of_compose(const std::string& file,
                                                   const std::string& service);

// `model`, `name`: replace the command's own; empty: keep them. Errors: as import_launch; of files
// that the command names.
result<imported_config> import_line(launch_line line, const std::string& model,
                                    const std::string& name);

} // namespace baton::cluster
