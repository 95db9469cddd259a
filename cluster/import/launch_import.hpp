// Translates the start command of another server to nodes.toml: vLLM, TGI, llama.cpp and SGLang
// (launch_options.hpp has the sources of names and meanings), TorchServe and Triton. Pure.
#pragma once

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/import/launch_line.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// The machine on which the cluster will run.
struct import_machine {
  std::uint32_t gpus = 0;                  // usable by an engine of this build
  std::optional<std::uint64_t> disk_bytes; // free space for swapped KV; none: unknown
};

// A key of nodes.toml that deviates from the command, and why.
struct import_change {
  std::string value; // empty: the key is left out
  std::string why;
};

struct import_wishes {
  std::string model, name; // replace the command's own; empty: keep them
  // The names that clients use become aliases. False if the words are not a real command, as for
  // Triton's files.
  bool keeps_names = true;
  import_machine machine;
  std::map<std::string, import_change> changes; // by key, such as "model.kv_cache_bytes"
};

// Settings that the command omits keep our defaults. Errors: bad_config (it starts none of these
// servers, names no model, or has an invalid value; the message names the option).
result<imported_config> import_launch(const launch_line& line, const import_wishes& wishes);
// `args`: the whole command, as split by a shell.
result<imported_config> import_launch(const std::vector<std::string>& args,
                                      const std::string& model, const std::string& name,
                                      bool keeps_names = true);

// `torchserve --start ...`: its config.properties, and the options that override it.
struct torchserve_line {
  std::string file;       // from --ts-config; empty: none
  std::string properties; // lines to append to the file's
  std::vector<std::string> notes;
};
result<torchserve_line> read_torchserve_line(const launch_line& line);

// `tritonserver ...` and `python openai_frontend/main.py ...`: the [model_repository] and [gateway]
// tables.
struct triton_line {
  std::string repository;                          // as a path on this machine
  std::string tables;                              // [gateway] and [model_repository]
  std::optional<std::uint32_t> default_max_tokens; // for requests without max_tokens
  std::vector<std::string> notes;
};
result<triton_line> read_triton_line(const launch_line& line);

} // namespace baton::cluster
