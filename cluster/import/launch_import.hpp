// The line with which another server is started, as our nodes.toml: vLLM's, TGI's, llama.cpp's and
// SGLang's (launch_options.hpp says where names and meanings are looked up), TorchServe's and
// Triton's. Pure.
#pragma once

#include "cluster/config/imported_config.hpp"
#include "cluster/import/launch_line.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// Of the machine on which the cluster will run.
struct import_machine {
  std::uint32_t gpus = 0;                  // that an engine here can use
  std::optional<std::uint64_t> disk_bytes; // free where swap space would lie; none: not known
};

// A key of nodes.toml that is not as the line says, and why.
struct import_change {
  std::string value; // empty: the key is left out
  std::string why;
};

struct import_wishes {
  std::string model, name; // in place of the line's own; empty: those
  // The names under which clients asked that server become aliases; false if the words are no
  // server's line, as in Triton's files.
  bool keeps_names = true;
  import_machine machine;
  std::map<std::string, import_change> changes; // by "model.kv_cache_bytes"
};

// Settings that the line leaves out keep our defaults. Errors: bad_config (it starts none of these
// servers, it names no model, a value is none of those that there are; names the option).
result<imported_config> import_launch(const launch_line& line, const import_wishes& wishes);
// `words`: the whole line, as a shell would hand it over.
result<imported_config> import_launch(const std::vector<std::string>& words,
                                      const std::string& model, const std::string& name,
                                      bool keeps_names = true);

// `torchserve --start ...`: its config.properties, and what the line says in its place.
struct torchserve_line {
  std::string file;       // of --ts-config; empty: none
  std::string properties; // lines that go behind the file's
  std::vector<std::string> notes;
};
result<torchserve_line> read_torchserve_line(const launch_line& line);

// `tritonserver ...`: [model_repository] and the doors. `llm`: the [model] table of an LLM that is
// in the repository, or nothing.
struct triton_line {
  std::string repository; // as it is on this machine
  std::string tables;     // [gateway] and [model_repository]
  std::vector<std::string> notes;
};
result<triton_line> read_triton_line(const launch_line& line);

} // namespace baton::cluster
