// Membership, status, and operators' requests to the root. Part of messages.hpp.
#pragma once

#include "schema/constraint.hpp"
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
#include "schema/members/hello.inc"
};

struct hello_ack {
#include "schema/members/hello_ack.inc"
};

struct heartbeat {
#include "schema/members/heartbeat.inc"
};

// Total data bytes received from the receiver of this message.
struct credit {
#include "schema/members/credit.inc"
};

enum class phase : std::uint8_t {
  starting = 1,
  loading = 2,
  ready = 3,
  recovering = 4,
  draining = 5,
  stopped = 6,
  failed = 7,
  unloaded = 8 // of a model that its next request loads
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
#include "schema/members/supervision.inc"
  friend bool operator==(const supervision&, const supervision&) = default;
};

// Any process to root (and head to gateways): its current state.
struct status {
#include "schema/members/status.inc"
};

// A model's format for tool calls (runtime/text/stream/call_style.hpp). Numbers are on the wire.
enum class call_format : std::uint8_t {
  hermes = 0,
  llama3 = 1,
  mistral = 2,
  qwen_xml = 3,
  harmony = 4,
  glm = 5,
  mistral_named = 6,
  pythonic = 7,
  lfm2 = 8,
  kimi = 9,
  deepseek31 = 10,
  deepseek = 11,
  granite = 12,
  gemma4 = 13,
  function_gemma = 14,
};
inline constexpr auto call_format_last = call_format::function_gemma;

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
  reasoning_format reasoning = reasoning_format::none;
  sampling_defaults sampling{};
  std::string
      chat_template_failure{};  // why the model's own template cannot be used, and where it fails
  bool loads_on_demand = false; // its first request loads it
  // The template renders tools and calls in `call_format` itself; otherwise they are messages.
  bool has_own_calls = false;
};

// Root to all: finish accepted requests, admit no more, stop within the grace period.
struct drain {
#include "schema/members/drain.inc"
};

struct query_status {
#include "schema/members/query_status.inc"
};

// The loads of a model, in the root's view.
struct model_loads {
#include "schema/members/model_loads.inc"
  friend bool operator==(const model_loads&, const model_loads&) = default;
};

// One pipeline: a replica of a model.
struct pipeline_status {
#include "schema/members/pipeline_status.inc"
};

// The machine and device of a shard, and its layers, as planned.
struct shard_assignment {
#include "schema/members/shard_assignment.inc"
};

struct cluster_status {
#include "schema/members/cluster_status.inc"
};

// Client to root: remove all layers from a node, or allow layers again. Streams continue. Answered
// by nodes_changed.
struct change_nodes {
#include "schema/members/change_nodes.inc"
};

// Client to root: set the number of replicas of a model and the width of their stages. Streams
// continue. Answered by nodes_changed.
struct scale_model {
#include "schema/members/scale_model.inc"
};

// Client to root: a node without layers leaves the cluster. Answered by nodes_changed, without a
// generation.
struct remove_node {
#include "schema/members/remove_node.inc"
};

struct nodes_changed {
#include "schema/members/nodes_changed.inc"
};

} // namespace baton
