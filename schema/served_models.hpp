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
  std::string archive;               // of a model store, as its client called it; else empty
  bool is_default = false;           // of several versions, if one was chosen; else the newest is
  std::vector<model_worker> workers; // none: nothing of it runs
};

// Root to gateways: all of them, whenever something changes and to whoever is linked.
struct served_models {
  model_control control = model_control::none;
  std::vector<served_model> all;
};

// Numbers are on the wire.
enum class model_order : std::uint8_t {
  load = 1, // of a repository of Triton's
  unload = 2,
  enlist = 3, // of a store of TorchServe's, which calls it registering
  strike = 4, // and unregistering
  scale = 5,
  set_default = 6
};

// What a client says of a model of a store; what it does not say is the archive's, or a default.
struct model_settings {
  std::string handler; // in place of the archive's
  std::optional<std::uint32_t> batch_size, max_batch_delay, response_timeout, startup_timeout;
  std::optional<std::uint32_t> workers_min, workers_max;
};

// Gateway to root: a client changes which models are served. Answered by model_changed.
struct change_model {
  std::uint64_t request = 0;
  std::string model; // with `enlist` it may be empty: the archive's name
  model_order what = model_order::load;
  std::string version; // empty: the one that requests without a version get
  std::string archive; // with `enlist`: its name in the store
  model_settings settings{};
  bool waits = true; // answered when it is done; else when it has begun
};

// Root to gateway: it is as was asked, or will be if it does not wait; or why not.
struct model_changed {
  std::uint64_t request = 0;
  std::optional<error> failure;
  std::string model{}, version{}; // with orders of a store: what it was about
  std::uint32_t workers = 0;      // that it is to have
};

// Gateway to root: what it had of this revision, which is `unloading`, is done.
struct model_drained {
  std::uint64_t revision = 0;
};

} // namespace baton
