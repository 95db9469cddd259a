// Membership, status, and operators' requests to the root. Part of messages.hpp.
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

// First message on every connection, in both directions, before a peer counts as up.
struct hello {
  process_id process;
  epoch_id incarnation;
  baton::role role = role::client;
  std::string name;     // "gateway", "shard-1"
  std::string endpoint; // where to connect back
  std::string build;    // version and source hash: a mixed cluster is refused
  std::int32_t pid = 0;
  std::string api_key = {};      // of a client, where the server requires a key; never logged
  std::uint64_t load_micros = 0; // of a worker: startup time of its handler; 0: not reported
};

struct hello_ack {
  process_id process;
  epoch_id incarnation;
  std::uint64_t credit_bytes = 0; // window for data messages
  std::optional<error> refused;
};

struct heartbeat {
  std::uint64_t count = 0;
  std::uint64_t steps = 0; // progress: a process with stuck actors does not send this
};

// Total data bytes received from the receiver of this message.
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

// Siblings that are restarted with a child that ended (Erlang/OTP, "Supervisor Behaviour").
enum class restart_strategy : std::uint8_t {
  one_for_one = 0,  // none
  one_for_all = 1,  // all others
  rest_for_one = 2, // all started after it
};
inline constexpr std::array<std::string_view, 3> restart_strategy_names{
    "one_for_one", "one_for_all", "rest_for_one"};

// A process's position in the supervision tree, as its supervisor reports it.
struct supervision {
  std::string by; // its supervisor's name: "root", "agent-a"
  restart_strategy strategy = restart_strategy::one_for_one;
  std::uint32_t restarts_max = 0; // within the period; 0: started from outside, on its machine
  std::uint32_t period_seconds = 0;
  std::uint32_t restarts_recent = 0; // within the period that ends now
  bool has_given_up = false;         // no further restarts: status.reason gives the cause
  friend bool operator==(const supervision&, const supervision&) = default;
};

// Any process to root (and head to gateways): its current state.
struct status {
  process_id process;
  epoch_id incarnation;
  baton::role role = role::client;
  std::string name;
  baton::phase phase = phase::starting;
  std::string reason;
  std::int32_t pid = 0;
  std::uint32_t restarts = 0;
  double progress = 0; // of the phase, 0 to 1
  // Only for processes whose supervisor has reported it.
  std::optional<baton::supervision> supervision = {};
};

// A model's format for tool calls (runtime/text/stream/call_style.hpp). Numbers are on the wire.
enum class call_format : std::uint8_t { hermes = 0, llama3 = 1, mistral = 2 };

// The model that a head serves; sent to gateways on hello and on every change.
struct model_card {
  std::string name;
  std::string architecture;
  std::uint64_t parameters = 0;
  std::uint32_t max_model_len = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t sequences_max = 0;
  std::int64_t created = 0; // seconds since 1970
  bool has_chat_template = false;
  baton::phase phase = phase::starting;
  std::string reason;
  baton::call_format call_format = call_format::hermes;
  sampling_defaults sampling{};
  std::string
      chat_template_failure{}; // why the model's own template cannot be used, and where it fails
};

// Root to all: finish accepted requests, admit no more, stop within the grace period.
struct drain {
  std::chrono::milliseconds grace{0};
};

struct query_status {
  std::uint64_t request = 0;
};

// One pipeline: a replica of a model.
struct pipeline_status {
  std::string model;
  std::uint32_t generation = 0;        // the one that serves
  std::uint32_t coming_generation = 0; // 0: none
  std::string change; // the change in progress, or the last one's outcome; "": none yet
  std::optional<load_report> load;
};

// The machine and device of a shard, and its layers, as planned.
struct shard_assignment {
  process_id process;
  std::uint32_t pipeline = 0;
  std::uint32_t generation = 0; // of its pipeline: serving or coming
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
  // The first pipeline's.
  std::string model;
  std::optional<load_report> load;
  std::uint32_t generation = 0;
  std::uint32_t coming_generation = 0;
  std::string change;
  std::vector<pipeline_status> pipelines;    // by number
  std::vector<shard_assignment> assignments; // of all shards among the processes
};

// Client to root: remove all layers from a node, or allow layers again. Streams continue. Answered
// by nodes_changed.
struct change_nodes {
  std::uint64_t request = 0;
  std::string node; // as in nodes.toml
  bool is_drain = false;
};

// Client to root: set the number of replicas of a model and the width of their stages. Streams
// continue. Answered by nodes_changed.
struct scale_model {
  std::uint64_t request = 0;
  std::string model;
  std::uint32_t replicas = 0; // 0: as many as possible
  std::uint32_t width = 0;    // ranks of each stage; 0: as many as possible
};

// Client to root: a node without layers leaves the cluster. Answered by nodes_changed, without a
// generation.
struct remove_node {
  std::uint64_t request = 0;
  std::string node;
};

struct nodes_changed {
  std::uint64_t request = 0;
  std::uint32_t generation = 0; // the coming one, reported by cluster_status
  std::optional<error> refused;
  std::vector<std::uint32_t> further; // of further pipelines
};

} // namespace baton
