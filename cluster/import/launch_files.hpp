// Files that a start line names beside its model: their content belongs to the line. The caller
// reads the files; everything here is pure.
#pragma once

#include "cluster/import/launch_line.hpp"

namespace baton::cluster {

// The text of a file by its path on this machine.
using file_lookup = std::function<result<std::string>(const std::string& path)>;

// Variables of an --env-file of Docker or Podman, whose values are all that is behind the first '='
// (docker/cli, opts/envfile.go); of Compose, whose values may be in quotes, have comments behind
// them and name other variables (compose-go, dotenv). A name alone has the shell's value, or none.
// Errors: bad_config (with its line).
result<std::map<std::string, std::string>> read_env_file(std::string_view text, env_file_kind kind,
                                                         const variable_lookup& variable);

// The options in a YAML file of vLLM's or SGLang's --config, as words.
result<std::vector<std::string>> words_of_config(launcher program, std::string_view yaml);

// Takes the env_files and the --config of the line into it: what the line itself says holds. A path
// is one of this machine, or of the container where something of this machine is mounted. Errors: a
// file that cannot be read or is none; names the option.
result<void> take_files(launch_line& line, const file_lookup& read,
                        const variable_lookup& variable);

} // namespace baton::cluster
