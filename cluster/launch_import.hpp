// The command with which another server is started, as our nodes.toml: `vllm serve ...` and
// `text-generation-launcher ...`. Names and meanings: https://docs.vllm.ai/en/latest/cli/serve and
// https://huggingface.co/docs/text-generation-inference/reference/launcher. Pure.
#pragma once

#include "cluster/imported_config.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

// Whether a command of which this is the first word can be read: "vllm", "python3", ...
bool is_known_launcher(std::string_view word) noexcept;

// `words`: the whole command, as a shell would hand it over. `model` and `name` take the place of
// the command's own where they are not empty. `keeps_names`: the names under which clients asked
// that server become aliases; false if the words are no server's command, as in Triton's files.
// Settings that the command leaves out keep our defaults.
// Errors: bad_config (it is none of these commands, it names no model, a value is none of those
// that there are; names the option).
result<imported_config> import_launch(const std::vector<std::string>& words,
                                      const std::string& model, const std::string& name,
                                      bool keeps_names = true);

} // namespace baton::cluster
