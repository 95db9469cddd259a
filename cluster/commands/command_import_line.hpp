// The line that starts another server, and a compose file that has one, as they come up on this
// machine: what it has not is left out with a word.
#pragma once

#include "cluster/config/imported_config.hpp"
#include "cluster/import/launch_line.hpp"
#include "schema/result.hpp"

#include <optional>
#include <string>

namespace baton::cluster {

// Nothing if `file` is no compose file. `service`: of several. Errors: io_failed, bad_config.
result<std::optional<launch_line>> line_of_compose(const std::string& file,
                                                   const std::string& service);

// `model`, `name`: in place of the line's own; empty: those. Errors: as import_launch; of the files
// that the line names.
result<imported_config> import_line(launch_line line, const std::string& model,
                                    const std::string& name);

} // namespace baton::cluster
