// Reads TorchServe's config.properties: where the server listens, and what applies to all models
// (https://pytorch.org/serve/configuration.html). Pure.
#pragma once

#include "cluster/config/config.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct torchserve_properties {
  // HOST:PORT; empty: no such listener. The defaults are TorchServe's.
  std::string inference = "127.0.0.1:8080";
  std::string management = "127.0.0.1:8081";
  std::string metrics = "127.0.0.1:8082";
  std::string grpc_inference, grpc_management; // empty: the file names no port
  std::string certificate, key;                // PEM files
  bool needs_no_token = false;                 // disable_token_authorization
  std::optional<std::uint32_t> job_queue_size;
  std::optional<std::uint32_t> response_timeout; // in seconds
  std::optional<std::uint32_t> startup_timeout;  // in seconds
  std::string model_store;                       // a directory; empty: the file names none
  std::vector<std::string> load_models; // from the store: "all", "NAME.mar", "MODEL=NAME.mar"
  std::optional<std::uint32_t> workers_per_model; // of each model in load_models
  std::optional<std::uint32_t> number_of_gpu; // upper bound of GPUs that workers use in rotation
  bool cpu_launcher_enable = false;
  std::vector<std::string> cpu_launcher_args;           // those that have an effect here
  std::optional<std::vector<std::string>> allowed_urls; // regular expressions
  bool installs_requirements = false;                   // install_py_dep_per_model
  std::vector<std::string> variables{};                 // TS_*, read as enable_envvars_config asks
  std::vector<archive_settings> models{};               // of archives, by name and version
  std::vector<std::string> notes; // what is left out, or has another meaning here
};

// Returns an environment variable by name.
using environment_lookup = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> variable_of_process(const std::string& name);

// `variable` resolves each $$NAME$$ in a value, and TS_KEY with enable_envvars_config. Errors:
// bad_config (a malformed address or number, or an unset variable; the message names the key).
result<torchserve_properties>
parse_torchserve_properties(std::string_view text,
                            const environment_lookup& variable = variable_of_process);

} // namespace baton::cluster
