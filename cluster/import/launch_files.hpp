// Files that a start command refers to, whose content extends the command. The caller reads the
// files; everything here is pure.
#pragma once

#include "cluster/import/launch_line.hpp"

namespace baton::cluster {

// Returns the text of a file by its path on this machine.
using file_lookup = std::function<result<std::string>(const std::string& path)>;

// Variables of an --env-file. Docker and Podman take everything behind the first '=' as the value
// (docker/cli, opts/envfile.go). Compose allows quotes, comments and other variables (compose-go,
// dotenv). A name alone takes the shell's value, or none. Errors: bad_config (with the line).
result<std::map<std::string, std::string>> read_env_file(std::string_view text, env_file_kind kind,
                                                         const variable_lookup& variable);

// The options in a YAML file for vLLM's or SGLang's --config, as words.
result<std::vector<std::string>> config_args(launcher program, std::string_view yaml);

// Merges env_files and --config into the command, whose own values win. A path refers to this
// machine, or to a container directory that is mounted from it. Errors: a file is unreadable or
// malformed; the message names the option.
result<void> take_files(launch_line& line, const file_lookup& read,
                        const variable_lookup& variable);

} // namespace baton::cluster
