// The models that workers serve: the root decides, the gateways follow. Part of messages.hpp.
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

// The source of changes to the repository's served models; Triton's --model-control-mode.
enum class model_control : std::uint8_t {
  none = 0,   // no changes
  poll = 1,   // the repository's files
  clients = 2 // "explicit": clients load and unload
};

// A process that serves a model, connected to one gateway.
struct model_worker {
#include "schema/members/model_worker.inc"
};

// One version of a model, with its files at one point in time. Several revisions exist while a
// newer one loads or an older one finishes its requests.
struct served_model {
  std::string name;
  std::string version;
  std::uint64_t revision = 0; // unique in the cluster's lifetime
  model_state state = model_state::loading;
  std::string reason;            // of the state, for people
  bool is_of_repository = false; // else it is from nodes.toml
  std::string config;            // its [[workers]] table, unless nodes.toml has it
  std::string archive;           // of a model store, as the client named it; else empty
  bool is_default = false;       // the chosen version of several; if none was chosen, the newest is
  std::vector<model_worker> workers; // empty: no process runs it
};

// Root to gateways: all of them, on every change and to each newly linked gateway.
struct served_models {
#include "schema/members/served_models.inc"
};

// Numbers are on the wire.
enum class model_order : std::uint8_t {
  load = 1, // of a Triton repository
  unload = 2,
  register_model = 3,   // "register" of a TorchServe store
  unregister_model = 4, // "unregister" of a TorchServe store
  scale = 5,
  set_default = 6,
  keep = 7 // of a model on demand: `keep_alive` alone
};

// A client's settings for a model of a store; absent ones come from the archive or a default.
struct model_settings {
  std::string handler; // replaces the archive's
  std::optional<std::uint32_t> batch_size, max_batch_delay, response_timeout, startup_timeout;
  std::optional<std::uint32_t> workers_min, workers_max;

  friend bool operator==(const model_settings&, const model_settings&) = default;
};

// Gateway to root: a client changes which models are served. Answered by model_changed.
struct change_model {
  std::uint64_t request = 0;
  std::string model; // with `register_model` it may be empty: then it is the archive's name
  model_order what = model_order::load;
  std::string version; // empty: the version that serves requests without one
  std::string archive; // with `register_model`: its name in the store
  model_settings settings{};
  // For a model on demand: milliseconds without a request until it is unloaded, up to its next
  // unload; -1: without end.
  std::optional<std::int64_t> keep_alive{};
  bool waits = true; // answered on completion; otherwise when the change has begun
};

// Root to gateway: the change is done, or accepted if the client does not wait; or its failure.
struct model_changed {
#include "schema/members/model_changed.inc"
};

// Gateway to root: all requests of this revision, which is `unloading`, have ended.
struct model_drained {
#include "schema/members/model_drained.inc"
};

} // namespace baton
