#include "cluster/join/join_registry.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace baton::cluster {
namespace {

constexpr std::array<std::string_view, 4> state_names{"wait", "refused", "granted", "noted"};

nlohmann::json json_of(const std::vector<granted_pipeline>& pipelines) {
  auto all = nlohmann::json::array();
  for (const auto& p : pipelines)
    all.push_back(
        {{"model_fingerprint", p.model_fingerprint}, {"generations", cluster::json_of(p.shards)}});
  return all;
}

// Throws json::exception if the value is malformed. None: its generations are impossible.
std::optional<join_grant> grant_from(const nlohmann::json& j) {
  join_grant g;
  g.nodes = {j.at("config").get<std::string>(), membership_from(j.at("members"))};
  if (auto known = machines_from(j.at("machines")))
    g.known = std::move(*known);
  g.root_host = j.at("root_host").get<std::string>();
  g.port = j.at("port").get<std::uint16_t>();
  g.root_key = j.at("root_key").get<std::string>();
  g.keys = machine_keys::from(j.at("keys").get<std::string>());
  g.host = j.at("host").get<std::string>();
  for (const auto& p : j.at("pipelines")) {
    g.pipelines.push_back(
        {p.at("model_fingerprint").get<std::uint64_t>(), generations_from(p.at("generations"))});
    if (!check_generations(g.pipelines.back().shards))
      return std::nullopt;
  }
  return g;
}

result<void> check_clock(const join_request& r, std::uint64_t now_micros) {
  constexpr double micros_per_second = 1e6;
  const double ahead =
      (static_cast<double>(r.clock_micros) - static_cast<double>(now_micros)) / micros_per_second;
  if (std::abs(ahead) <= static_cast<double>(clock_skew_max.count()))
    return {};
  return fail(errc::conflict,
              "node {}: its clock is {:.0f} s {} that of `cluster up`'s machine: set it, or have "
              "both keep time (chrony, systemd-timesyncd)",
              r.node, std::abs(ahead), ahead > 0 ? "ahead of" : "behind");
}

} // namespace

std::string text_of(const join_request& r) {
  return nlohmann::json{{"node", r.node},     {"token", r.token},
                        {"build", r.build},   {"machine", json_of(r.machine)},
                        {"failed", r.failed}, {"clock_micros", r.clock_micros}}
      .dump();
}

std::optional<join_request> join_request_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    auto machine = machine_from(j.at("machine"));
    if (!machine)
      return std::nullopt;
    return join_request{.node = j.at("node").get<std::string>(),
                        .token = j.at("token").get<std::string>(),
                        .build = j.at("build").get<std::string>(),
                        .machine = std::move(*machine),
                        .failed = j.at("failed").get<std::string>(),
                        .clock_micros = j.at("clock_micros").get<std::uint64_t>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string text_of(const key_change& c) {
  return nlohmann::json{{"node", c.node}, {"next_key", c.next}, {"patient", c.is_patient}}.dump();
}

std::optional<key_change> key_change_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    return key_change{j.at("node").get<std::string>(), j.at("next_key").get<std::string>(),
                      j.at("patient").get<bool>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string text_of(const reach_request& r) {
  return nlohmann::json{{"node", r.node}, {"reach_port", r.port}}.dump();
}

std::optional<reach_request> reach_request_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    const auto port = j.at("reach_port").get<std::uint64_t>();
    if (port == 0 || port > std::numeric_limits<std::uint16_t>::max())
      return std::nullopt;
    return reach_request{j.at("node").get<std::string>(), static_cast<std::uint16_t>(port)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string text_of(const link_request& r) {
  return nlohmann::json{{"node", r.node}, {"token", r.token}, {"link_bytes", r.bytes}}.dump();
}

std::optional<link_request> link_request_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    const auto bytes = j.at("link_bytes").get<std::uint64_t>();
    if (bytes > link_bytes_max)
      return std::nullopt;
    return link_request{j.at("node").get<std::string>(), j.at("token").get<std::string>(), bytes};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string text_of(const join_answer& a) {
  nlohmann::json j{{"state", state_names[static_cast<std::size_t>(a.state)]}, {"reason", a.reason}};
  if (a.grant)
    j["grant"] = {{"config", a.grant->nodes.config},
                  {"members", json_of(a.grant->nodes.members)},
                  {"machines", json_of(a.grant->known)},
                  {"root_host", a.grant->root_host},
                  {"port", a.grant->port},
                  {"root_key", a.grant->root_key},
                  {"keys", a.grant->keys.text()},
                  {"host", a.grant->host},
                  {"pipelines", json_of(a.grant->pipelines)}};
  return j.dump();
}

std::optional<join_answer> join_answer_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    const auto state = j.at("state").get<std::string>();
    const auto at = std::find(state_names.begin(), state_names.end(), state);
    if (at == state_names.end())
      return std::nullopt;
    join_answer a;
    a.state = static_cast<join_state>(at - state_names.begin());
    a.reason = j.at("reason").get<std::string>();
    if (a.state == join_state::granted) {
      auto grant = grant_from(j.at("grant"));
      if (!grant)
        return std::nullopt;
      a.grant = std::move(*grant);
    }
    return a;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

join_registry::join_registry(const cluster_config& config, machine_keys keys, std::string build)
    : build_(std::move(build)), keys_(std::move(keys)) {
  for (const auto& n : config.nodes)
    if (n.is_elsewhere)
      expected_.push_back({.node = n.name,
                           .host = n.host,
                           .token = keys_.has(n.name) ? "" : random_token(),
                           .facts = std::nullopt,
                           .failed = "",
                           .waits = n.waits,
                           .named_key = n.public_key});
}

bool join_registry::expect(const node_config& n) {
  const bool is_trusted = n.public_key.empty() || keys_.add(n.name, n.public_key);
  expected_.push_back({.node = n.name,
                       .host = n.host,
                       .token = keys_.has(n.name) ? "" : random_token(),
                       .facts = std::nullopt,
                       .failed = "",
                       .waits = true,
                       .named_key = n.public_key});
  return is_trusted;
}

void join_registry::dismiss(const std::string& node) {
  std::erase_if(expected_, [&](const expected_machine& m) { return m.node == node; });
  if (grant_)
    grant_->known.erase(node);
}

void join_registry::forget_removed() {
  std::vector<std::string> names{root_machine};
  for (const auto& m : expected_)
    names.push_back(m.node);
  keys_.keep_only(names);
}

void join_registry::use_nodes(node_update now) {
  if (grant_)
    grant_->nodes = std::move(now);
}

void join_registry::remember(const machines& known) {
  for (auto& m : expected_)
    if (const auto it = known.find(m.node); it != known.end())
      m.facts = it->second;
}

// A token works once; after that its machine is known by the key that it sent.
result<void> join_registry::judge(expected_machine& m, const join_request& r,
                                  const std::string& public_key, std::uint64_t now_micros) {
  const bool is_known = keys_.trusts(m.node, public_key);
  const bool has_token = !m.token.empty() && is_same_secret(r.token, m.token);
  if (!is_known && !has_token)
    return fail(errc::unauthorized,
                "node {}: this machine's key is not known here, and the token is not the one that "
                "`cluster up` shows",
                m.node);
  if (r.build != build_)
    return fail(errc::version_mismatch, "node {} is build {}, the cluster is {}: {}", m.node,
                r.build, build_, other_build_advice);
  // A machine that has joined before is not refused for its clock.
  if (auto ok = m.facts ? result<void>() : check_clock(r, now_micros); !ok)
    return ok;
  if (!is_known) {
    if (!keys_.add(m.node, public_key))
      return fail(errc::unauthorized,
                  "node {}: this machine's key is another machine's, or was revoked: make a new "
                  "one (cluster keygen)",
                  m.node);
    m.token.clear();
  }
  return {};
}

join_answer join_registry::answer(const join_request& r, const std::string& public_key,
                                  std::uint64_t now_micros) {
  const auto m = find(r.node);
  if (m == expected_.end())
    return {join_state::refused,
            fmt::format("there is no [[nodes]] table named '{}' of another machine", r.node),
            std::nullopt};
  if (auto ok = judge(*m, r, public_key, now_micros); !ok)
    return {join_state::refused, ok.error().message, std::nullopt};
  m->failed = r.failed;
  if (!r.failed.empty())
    return {join_state::recorded, "", std::nullopt};
  if (!grant_) {
    m->facts = r.machine;
    return {join_state::wait, missing(), std::nullopt};
  }
  if (!m->facts) { // the cluster started without it: the others must learn of it first
    m->facts = r.machine;
    grant_->known.insert_or_assign(m->node, r.machine);
    return {join_state::wait, "the other machines are being informed", std::nullopt};
  }
  auto grant = *grant_;
  grant.keys = keys_;
  grant.host = m->host;
  return {join_state::granted, "", std::move(grant)};
}

join_answer join_registry::answer(const key_change& c, const std::string& public_key) {
  const auto refuse = [&](std::string why) {
    return join_answer{join_state::refused, std::move(why), std::nullopt};
  };
  if (!keys_.trusts(c.node, public_key))
    return refuse(fmt::format("this is not the key of node {}", c.node));
  if (c.next.empty() && public_key != keys_.newest(c.node))
    return refuse("only the machine with the newest key may revoke older ones");
  if (c.next.empty()) {
    keys_.retire_older(c.node);
    const auto m = find(c.node);
    const bool is_named =
        m != expected_.end() && !m->named_key.empty() && m->named_key != public_key;
    return {join_state::recorded,
            is_named ? fmt::format("nodes.toml names the previous key: write public_key = \"{}\" "
                                   "there for node {}, ahead of the next `cluster up`",
                                   public_key, c.node)
                     : "",
            std::nullopt};
  }
  if (!is_curve_key(c.next) || !keys_.add(c.node, c.next))
    return refuse("the next key is malformed, another machine's or revoked, or there are too many");
  if (const auto waiting = unconfirmed(c.next); c.is_patient && !waiting.empty())
    return {join_state::wait,
            fmt::format("node {} has not confirmed the key yet", fmt::join(waiting, ", ")),
            std::nullopt};
  return {join_state::recorded, "", std::nullopt};
}

std::optional<std::string> join_registry::host_of(const std::string& node,
                                                  const std::string& public_key) const {
  for (const auto& m : expected_)
    if (m.node == node && keys_.trusts(node, public_key))
      return m.host;
  return std::nullopt;
}

bool join_registry::may_ask(const link_request& r, const std::string& public_key) const {
  return std::any_of(expected_.begin(), expected_.end(), [&](const expected_machine& m) {
    return m.node == r.node && (keys_.trusts(m.node, public_key) ||
                                (!m.token.empty() && is_same_secret(r.token, m.token)));
  });
}

// The joined machines whose agents have not confirmed this key.
std::vector<std::string> join_registry::unconfirmed(const std::string& key) const {
  std::vector<std::string> names;
  for (const auto& m : expected_)
    if (m.facts && !m.confirmed_keys.trusts(key))
      names.push_back(m.node);
  return names;
}

void join_registry::confirm_keys(const std::string& node, machine_keys keys) {
  if (const auto m = find(node); m != expected_.end())
    m->confirmed_keys = std::move(keys);
}

std::vector<expected_machine>::iterator join_registry::find(const std::string& node) {
  return std::find_if(expected_.begin(), expected_.end(),
                      [&](const expected_machine& m) { return m.node == node; });
}

void join_registry::record_failure(const std::string& node, const std::string& why) {
  if (const auto m = find(node); m != expected_.end())
    m->failed = why;
}

void join_registry::open(join_grant grant) {
  grant_ = std::move(grant);
  // Machines that joined while the plan was made are missing from the grant's facts, yet layers may
  // be placed there. Without their facts a granted machine could not plan that generation.
  for (const auto& [node, facts] : gathered())
    grant_->known.emplace(node, facts);
}

void join_registry::use_root_key(const std::string& public_key) {
  if (grant_)
    grant_->root_key = public_key;
}

void join_registry::change(const generations& now) {
  if (grant_ && now.pipeline < grant_->pipelines.size())
    grant_->pipelines[now.pipeline].shards = now;
}

bool join_registry::has_joined(const std::string& node) const {
  return std::any_of(expected_.begin(), expected_.end(), [&](const expected_machine& m) {
    return m.node == node && m.facts.has_value();
  });
}

bool join_registry::is_complete() const {
  return std::all_of(expected_.begin(), expected_.end(),
                     [](const expected_machine& m) { return m.waits || m.facts.has_value(); });
}

machines join_registry::gathered() const {
  machines all;
  for (const auto& m : expected_)
    if (m.facts)
      all.emplace(m.node, *m.facts);
  return all;
}

std::string join_registry::missing() const {
  std::vector<std::string> names;
  for (const auto& m : expected_)
    if (!m.facts && !m.waits)
      names.push_back(m.node);
  return names.empty() ? "the plan is being made"
                       : fmt::format("waiting for {}", fmt::join(names, ", "));
}

} // namespace baton::cluster
