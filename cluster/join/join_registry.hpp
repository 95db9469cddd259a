// The remote machines that ask to join: their facts, and the answers. Pure: no
// sockets, no files, no clock; join_server has those.
//
//   expected --a known key, or its token--> joined --the plan is made--> granted
//       ^                                     |  ^                         |
//       |                                     |  +-- asks again: `wait` ---+ asks again: the same
//       +--- "failed: why" (its own check) ---+                              grant, with current
//                                                                            keys and shards
//
// A known machine may change its key (machine_keys.hpp). It announces the next key under the
// current one, and waits until every machine has confirmed it. Then it revokes the old key.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/machines/machine.hpp"
#include "cluster/membership/membership.hpp"
#include "cluster/plan/addresses.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace baton::cluster {

// Ends the server's refusal of a machine with another build. The machine may try again, because
// machines are upgraded one by one.
inline constexpr std::string_view other_build_advice = "install the same";

// A machine's request to join. The connection's key identifies the machine.
struct join_request {
  std::string node;
  std::string token;
  std::string build;
  machine_facts machine;
  std::string failed;             // it was granted, but cannot run: why
  std::uint64_t clock_micros = 0; // time of the request by the machine's clock
};
// Maximal clock difference between machines; beyond it, logs could not be correlated and
// certificates would fail. The measurement includes the request's latency, so it is not exact.
inline constexpr std::chrono::seconds clock_skew_max{30};

// The shards of one pipeline in a grant.
struct granted_pipeline {
  std::uint64_t model_fingerprint = 0;
  generations shards;
};
struct join_grant {
  node_update nodes;
  machines known;
  std::string root_host;
  std::uint16_t port = 0;
  std::string root_key;
  machine_keys keys;
  std::string host;                        // the machine's own address
  std::vector<granted_pipeline> pipelines; // by number
};

// A key change, sent by the machine that owns the connection's key.
struct key_change {
  std::string node;
  std::string next;       // to be trusted as well; empty: revoke the older ones
  bool is_patient = true; // whether to wait until every machine has confirmed it
};

// A known machine asks whether the root can reach it at this port.
struct reach_request {
  std::string node;
  std::uint16_t port = 0;
};

// A machine measures its link: the answer has `bytes` bytes.
struct link_request {
  std::string node;
  std::string token;
  std::size_t bytes = 0; // at most link_bytes_max
};
inline constexpr std::size_t link_bytes_max = std::size_t{1} << 20U;

enum class join_state : std::uint8_t { wait, refused, granted, recorded };
struct join_answer {
  join_state state = join_state::wait;
  std::string reason;              // for wait and refused; for noted: what the user should know
  std::optional<join_grant> grant; // if granted
};

std::string text_of(const join_request& r);
std::optional<join_request> join_request_from(std::string_view text);
std::string text_of(const key_change& c);
std::optional<key_change> key_change_from(std::string_view text);
std::string text_of(const reach_request& r);
std::optional<reach_request> reach_request_from(std::string_view text);
std::string text_of(const link_request& r);
std::optional<link_request> link_request_from(std::string_view text);
std::string text_of(const join_answer& a);
std::optional<join_answer> join_answer_from(std::string_view text);

struct expected_machine {
  std::string node;
  std::string host;
  std::string token; // empty: its key is known
  std::optional<machine_facts> facts;
  std::string failed;
  bool waits = false;               // for add-node: the cluster starts without it
  std::string named_key = {};       // from nodes.toml
  machine_keys confirmed_keys = {}; // keys that its agent has confirmed
};

class join_registry {
public:
  // `keys`: the persisted ones plus those of the configuration. `build`: this one's.
  join_registry(const cluster_config& config, machine_keys keys, std::string build);

  // Machines of an earlier root's plan, which need not ask again before it is granted.
  void remember(const machines& known);
  // A new node. False: the key that the configuration names for it belongs to another machine or is
  // revoked; the node then needs a token.
  bool expect(const node_config& n);
  // Removes a node. Its keys are trusted until forget_removed(), because its agent must still be
  // informed.
  void dismiss(const std::string& node);
  void forget_removed();
  // Later grants contain these nodes.
  void use_nodes(node_update now);
  // `now_micros`: by this machine's clock.
  join_answer answer(const join_request& r, const std::string& public_key,
                     std::uint64_t now_micros);
  join_answer answer(const key_change& c, const std::string& public_key);
  // The host of the node with this key, if the node may ask to be reached.
  std::optional<std::string> host_of(const std::string& node, const std::string& public_key) const;
  // Whether the key or the token is known; the token stays valid.
  bool may_ask(const link_request& r, const std::string& public_key) const;
  // The node's agent has persisted these keys.
  void confirm_keys(const std::string& node, machine_keys keys);
  // Records why a machine is missing or has left.
  void record_failure(const std::string& node, const std::string& why);
  // Opens the plan for grants: each contains the machine's own host, the keys at that time, and all
  // machines that have joined by then.
  void open(join_grant grant);
  // The root's machine has a new key; later grants contain it.
  void use_root_key(const std::string& public_key);
  // Later grants contain these shards.
  void change(const generations& now);

  bool is_open() const noexcept { return grant_.has_value(); }
  bool has_joined(const std::string& node) const;
  // Whether all machines that get layers in the first plan have joined.
  bool is_complete() const;
  // The machines that have joined.
  machines gathered() const;
  const std::vector<expected_machine>& expected() const noexcept { return expected_; }
  const machine_keys& keys() const noexcept { return keys_; }

private:
  result<void> judge(expected_machine& m, const join_request& r, const std::string& public_key,
                     std::uint64_t now_micros);
  std::string missing() const;
  std::vector<std::string> unconfirmed(const std::string& key) const;
  std::vector<expected_machine>::iterator find(const std::string& node);

  std::string build_;
  std::vector<expected_machine> expected_;
  machine_keys keys_;
  std::optional<join_grant> grant_;
};

} // namespace baton::cluster
