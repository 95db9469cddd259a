// Who is there, how they stand, and what an operator asks of the root. Part of messages.hpp.
#pragma once

#include "schema/error.hpp"
#include "schema/ids.hpp"
#include "schema/load_report.hpp"
#include "schema/sampling_defaults.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

enum class role : std::uint8_t {
  root = 1,
  gateway = 2,
  head = 3,
  agent = 4,
  shard = 5,
  client = 6,
  worker = 7
};

// First on every connection, both ways, before a peer counts as up.
struct hello {
  node_id node;
  epoch_id epoch;
  baton::role role = role::client;
  std::string name;     // "gateway", "shard-1"
  std::string endpoint; // where to connect back
  std::string build;    // version and source hash: a mixed cluster is refused
  std::int32_t pid = 0;
  std::string api_key = {}; // of a client, where the door asks for one; never logged
  std::uint64_t load_micros =
      0; // of a worker: what its handler took to be ready; 0: it did not say
};

struct hello_ack {
  node_id node;
  epoch_id epoch;
  std::uint64_t credit_bytes = 0; // window for data messages
  std::optional<error> refused;
};

struct heartbeat {
  std::uint64_t count = 0;
  std::uint64_t steps = 0; // progress: a process whose actors are stuck does not send this
};

// Data bytes taken in from the receiver of this message, in all.
struct credit {
  std::uint64_t bytes_total = 0;
};

enum class phase : std::uint8_t {
  starting = 1,
  loading = 2,
  ready = 3,
  recovering = 4,
  draining = 5,
  stopped = 6,
  failed = 7
};

// Who goes down with a child that ended, to come back with it (Erlang/OTP, "Supervisor Behaviour").
enum class restart_strategy : std::uint8_t {
  one_for_one = 0,  // nobody
  one_for_all = 1,  // all others
  rest_for_one = 2, // those that were started after it
};
inline constexpr std::array<std::string_view, 3> restart_strategy_names{
    "one_for_one", "one_for_all", "rest_for_one"};

// A process's place in the supervision tree, as its supervisor says it.
struct supervision {
  std::string by; // its supervisor's name: "root", "agent-a"
  restart_strategy strategy = restart_strategy::one_for_one;
  std::uint32_t restarts_max = 0; // within the period; 0: others start it, on its machine
  std::uint32_t period_seconds = 0;
  std::uint32_t restarts_recent = 0; // within the period that ends now
  bool has_given_up = false;         // nobody starts it again: status.reason says why
  friend bool operator==(const supervision&, const supervision&) = default;
};

// Any process to root (and head to gateways): how it stands.
struct status {
  node_id node;
  epoch_id epoch;
  baton::role role = role::client;
  std::string name;
  baton::phase phase = phase::starting;
  std::string reason;
  std::int32_t pid = 0;
  std::uint32_t restarts = 0;
  double progress = 0; // of the phase, 0 to 1
  // Only of those that a supervisor has spoken of.
  std::optional<baton::supervision> supervision = {};
};

// How a model writes calls of tools (runtime/text/call_style.hpp). Numbers are on the wire.
enum class call_format : std::uint8_t { hermes = 0, llama3 = 1, mistral = 2 };

// What a head serves; sent to gateways on hello and whenever it changes.
struct model_card {
  std::string name;
  std::string architecture;
  std::uint64_t parameters = 0;
  std::uint32_t context_max = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t sequences_max = 0;
  std::int64_t created = 0; // seconds since 1970
  bool has_chat_template = false;
  baton::phase phase = phase::starting;
  std::string reason;
  baton::call_format call_format = call_format::hermes;
  sampling_defaults sampling{};
  std::string chat_template_failure{}; // why the one that the model has cannot be used, and where
};

// Root to all: finish what is accepted, admit nothing more, stop within the grace.
struct drain {
  std::chrono::milliseconds grace{0};
};

struct query_status {
  std::uint64_t request = 0;
};

// Of one pipeline: a replica of a model.
struct pipeline_status {
  std::string model;
  std::uint32_t generation = 0;        // the one that serves
  std::uint32_t coming_generation = 0; // 0: none
  std::string change; // what is done, or how the last one ended; "": there was none
  std::optional<load_report> load;
};

// Where a shard lives and what it computes, as planned.
struct shard_place {
  node_id node;
  std::uint32_t pipeline = 0;
  std::uint32_t generation = 0; // of its pipeline: that which serves, or one that comes
  stage_index stage = 0;
  std::uint32_t rank = 0; // within its stage
  std::uint32_t first_layer = 0;
  std::uint32_t layers = 0;
  std::string on;     // the node, as in nodes.toml
  std::string device; // "cpu:0"
};

struct cluster_status {
  std::uint64_t request = 0;
  std::vector<status> nodes;
  baton::phase phase = phase::starting;
  std::string reason;
  std::string url;
  // Of the first pipeline.
  std::string model;
  std::optional<load_report> load;
  std::uint32_t generation = 0;
  std::uint32_t coming_generation = 0;
  std::string change;
  std::vector<pipeline_status> pipelines; // by number
  std::vector<shard_place> places;        // of all shards among `nodes`
};

// Client to root: no layers on this node any more, or some again. The streams go on. Answered by
// nodes_changed.
struct change_nodes {
  std::uint64_t request = 0;
  std::string node; // as in nodes.toml
  bool is_drain = false;
};

// Client to root: so many replicas of a model are to serve, and with stages so wide. The streams go
// on. Answered by nodes_changed.
struct scale_model {
  std::uint64_t request = 0;
  std::string model;
  std::uint32_t replicas = 0; // 0: as many as do
  std::uint32_t width = 0;    // ranks of each stage; 0: as many as there are
};

// Client to root: a node without layers is the cluster's no more. Answered by nodes_changed,
// without a generation.
struct remove_node {
  std::uint64_t request = 0;
  std::string node;
};

struct nodes_changed {
  std::uint64_t request = 0;
  std::uint32_t generation = 0; // the coming one, which cluster_status tells of
  std::optional<error> refused;
  std::vector<std::uint32_t> further; // of further pipelines
};

} // namespace baton
