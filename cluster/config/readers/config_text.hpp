// nodes.toml as text, for the processes of a cluster and for other machines. A cluster serves the
// models that its directories held at its start: `files` in the text names them, so that all of its
// processes have the same ones, whatever is in the directory now.
#pragma once

#include "cluster/config/config.hpp"

namespace baton::cluster {

// The operator's file. If the cluster runs, the directories that it knows have the `files` of its
// copy. Errors: io_failed, bad_config.
result<std::string> text_of_config(const std::filesystem::path& file);

// The text with the `files` of all its directories: the models of the configuration that was read
// from it. Unchanged if there is no models_dir. Errors: bad_config.
result<std::string> with_files(const std::string& text, const std::string& origin,
                               const cluster_config& config);

} // namespace baton::cluster
