// Which models workers serve: the root decides, the gateways follow. Part of messages.hpp.
#pragma once

#include "schema/error.hpp"
#include "schema/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// Triton's states. Numbers are on the wire.
enum class model_state : std::uint8_t { loading = 1, ready = 2, unloading = 3, unavailable = 4 };

// Who changes which models of the repository are served; Triton's --model-control-mode.
enum class model_control : std::uint8_t {
  none = 0,   // nobody
  poll = 1,   // the repository's files
  clients = 2 // "explicit": clients load and unload
};

// A process that serves a model, at the door of one gateway.
struct model_worker {
  node_id node;
  std::string name; // "worker-echo-0"
  std::uint32_t gateway_index = 0;
};

// One version of a model, as its files were at one time: while a newer revision of it loads, or an
// older one finishes what it has, there are several.
struct served_model {
  std::string name;
  std::string version;
  std::uint64_t revision = 0; // unique in the life of the cluster
  model_state state = model_state::loading;
  std::string reason;                // of the state, for people
  bool is_of_repository = false;     // else it is in nodes.toml
  std::string config;                // its [[workers]] table, if nodes.toml does not have it
  std::vector<model_worker> workers; // none: nothing of it runs
};

// Root to gateways: all of them, whenever something changes and to whoever is linked.
struct served_models {
  model_control control = model_control::none;
  std::vector<served_model> all;
};

// Gateway to root: a client loads or unloads a model of the repository. Answered by model_changed.
struct change_model {
  std::uint64_t request = 0;
  std::string model;
  bool is_unload = false;
};

// Root to gateway: it is served, or no longer takes requests; or why not.
struct model_changed {
  std::uint64_t request = 0;
  std::optional<error> failure;
};

// Gateway to root: what it had of this revision, which is `unloading`, is done.
struct model_drained {
  std::uint64_t revision = 0;
};

} // namespace baton
