// Who of the machines elsewhere has asked to join, with what, and what they are told. Pure: no
// sockets, no files, no clock; join_desk.hpp has those.
//
//   expected --a known key, or its token--> joined --the plan is made--> granted
//       ^                                     |  ^                         |
//       |                                     |  +--- asks again: `wait` --+ asks again: the same
//       +--- "failed: why" (its own check) ---+                              grant, with the keys
//                                                                            and shards of now
//
// A machine that is known may change its key (machine_keys.hpp): with the one that it has it names
// the next, waits until every machine has heard of that, and then, with the next, has it alone.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/plan/addresses.hpp"
#include "cluster/plan/machine.hpp"
#include "cluster/plan/membership.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace baton::cluster {

// How the desk's refusal of a machine with another build ends. Who hears it may try again: the one
// machine is upgraded ahead of the other.
inline constexpr std::string_view other_build_advice = "install the same";

// What a machine says to the desk. Its key is that of the connection.
struct join_request {
  std::string node;
  std::string token;
  std::string build;
  machine_facts machine;
  std::string failed;             // it was granted, but cannot: why
  std::uint64_t clock_micros = 0; // when it asked, by its own clock
};
// Beyond this a machine's clock is wrong: logs and certificates of the cluster would be told apart
// by nobody. Asking takes a little, so it is not exact.
inline constexpr std::chrono::seconds clock_skew_max{30};

// What it is told once there is a plan.
struct granted_pipeline {
  std::uint64_t model_fingerprint = 0;
  generations shards;
};
struct join_grant {
  told_nodes nodes;
  machines known;
  std::string root_host;
  std::uint16_t port = 0;
  std::string root_key;
  machine_keys keys;
  std::string host;                        // its own address
  std::vector<granted_pipeline> pipelines; // by number
};

// From a machine to which the key of the connection belongs.
struct key_change {
  std::string node;
  std::string next;       // to be trusted as well; empty: older ones are so no more
  bool is_patient = true; // as long as a machine has not heard of it, it waits
};

// From a machine that is known and listens at this port: is it reached from here?
struct reach_request {
  std::string node;
  std::uint16_t port = 0;
};

// From a machine that may join: so many bytes of answer, by which it measures its link.
struct link_request {
  std::string node;
  std::string token;
  std::size_t bytes = 0; // at most link_bytes_max
};
inline constexpr std::size_t link_bytes_max = std::size_t{1} << 20U;

enum class join_state : std::uint8_t { wait, refused, granted, noted };
struct join_answer {
  join_state state = join_state::wait;
  std::string reason;              // wait, refused; noted: what is to be said of it
  std::optional<join_grant> grant; // granted
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
  bool waits = false;         // for add-node: the cluster comes up without it
  std::string named_key = {}; // by nodes.toml
  machine_keys heard = {};    // what its agent has noted
};

class join_book {
public:
  // `keys`: as noted, with those that the configuration names. `build`: ours.
  join_book(const cluster_config& config, machine_keys keys, std::string build);

  // Machines that were here when another root made the plan: they need not ask before it.
  void remember(const machines& known);
  // A node that has come to be. False: the key that the configuration names for it is another
  // machine's, or was taken back; a token makes it known.
  bool expect(const node_config& n);
  // One that is the cluster's no more. Its keys are trusted until forget_strangers(): its agent has
  // still to hear of it.
  void dismiss(const std::string& node);
  void forget_strangers();
  // Whoever comes from now on hears of these nodes.
  void use_nodes(told_nodes now);
  // `now`: by this machine's clock.
  join_answer answer(const join_request& r, const std::string& public_key,
                     std::uint64_t now_micros);
  join_answer answer(const key_change& c, const std::string& public_key);
  // Where the node of this key is, which may ask us to try it; nothing: it may not.
  std::optional<std::string> host_of(const std::string& node, const std::string& public_key) const;
  // Known by its key, or by the token, which stays good.
  bool may_ask(const link_request& r, const std::string& public_key) const;
  // Its agent has noted these.
  void note_heard(const std::string& node, machine_keys keys);
  // What is known of one that has not come, or has left.
  void note_failed(const std::string& node, const std::string& why);
  // From now on machines are granted this, each with its own host, the keys of then, and all that
  // have joined by then.
  void open(join_grant grant);
  // The root's machine has this key now: who is granted from now on looks for it.
  void use_root_key(const std::string& public_key);
  // Whoever comes from now on hears of these shards.
  void change(const generations& now);

  bool is_open() const noexcept { return grant_.has_value(); }
  bool has_joined(const std::string& node) const;
  // All have joined that get layers at first.
  bool is_complete() const;
  // Those that have joined.
  machines gathered() const;
  const std::vector<expected_machine>& expected() const noexcept { return expected_; }
  const machine_keys& keys() const noexcept { return keys_; }

private:
  result<void> judge(expected_machine& m, const join_request& r, const std::string& public_key,
                     std::uint64_t now_micros);
  std::string missing() const;
  std::vector<std::string> not_heard(const std::string& key) const;
  std::vector<expected_machine>::iterator find(const std::string& node);

  std::string build_;
  std::vector<expected_machine> expected_;
  machine_keys keys_;
  std::optional<join_grant> grant_;
};

} // namespace baton::cluster
