#include "cluster/join/join_server.hpp"

#include "cluster/bus/reach.hpp"
#include "cluster/roles/process.hpp"

#include <spdlog/spdlog.h>

#include <thread>

namespace baton::cluster {
namespace {

// Bounds a connection attempt, during which other requests wait.
constexpr std::chrono::milliseconds reach_patience{1000};

// The previous socket may still be closing.
constexpr int rebind_attempts = 20;
constexpr std::chrono::milliseconds rebind_interval{10};

join_answer answer_of(join_registry& registry, const join_request& r,
                      const std::string& public_key) {
  return registry.answer(r, public_key, wall_micros());
}

join_answer answer_of(join_registry& registry, const key_change& c, const std::string& public_key) {
  return registry.answer(c, public_key);
}

void warn_of_key(const std::string& node) {
  spdlog::warn("node {}: nodes.toml names a key that was revoked or is another machine's: it is "
               "not trusted",
               node);
}

// The persisted keys, those of the configuration, and this machine's own.
machine_keys all_keys(const cluster_config& config, const run_dir& dir, const key_pair& own) {
  auto keys = recorded_keys(dir);
  std::vector<std::string> names{root_machine};
  for (const auto& n : config.nodes)
    if (n.is_elsewhere)
      names.push_back(n.name);
  keys.keep_only(names);
  for (const auto& n : config.nodes)
    if (n.is_elsewhere && !n.public_key.empty() && !keys.add(n.name, n.public_key))
      warn_of_key(n.name);
  if (!keys.trusts(root_machine, own.public_key)) { // changed while the cluster was down
    keys.add(root_machine, own.public_key);
    keys.retire_older(root_machine);
  }
  return keys;
}

} // namespace

join_server::join_server(const cluster_config& config, run_dir dir, const key_pair& own,
                         std::string build)
    : dir_(std::move(dir)), public_key_(own.public_key),
      registry_(config, all_keys(config, dir_, own), std::move(build)) {}

result<std::unique_ptr<join_server>> join_server::open(const cluster_config& config,
                                                       const run_dir& dir, const key_pair& own,
                                                       std::string build) {
  std::unique_ptr<join_server> server(new join_server(config, dir, own, std::move(build)));
  if (!server->registry_.keys().trusts(root_machine, own.public_key))
    return fail(errc::unauthorized,
                "this machine's key was revoked (cluster rotate-key), or is another machine's: "
                "make a new one (cluster keygen)");
  if (auto ok = record_keys(dir, server->registry_.keys()); !ok)
    return ok.error();
  server->endpoint_ =
      fmt::format("tcp://{}:{}", config.network.host, config.network.port + join_port_offset);
  if (auto ok = server->open_socket(own); !ok)
    return ok.error();
  server->launcher_ = std::make_unique<node_launcher>(
      dir, [d = server.get()](const std::string& node, const std::string& why) {
        d->failed(node, why);
      });
  if (auto ok = server->launch(config.nodes); !ok)
    return ok.error();
  return server;
}

result<void> join_server::launch(const std::vector<node_config>& nodes) {
  for (const auto& n : nodes)
    if (const auto i = invitation_of(n.name); i && !n.launch.empty())
      if (auto ok = launcher_->keep(n.name, n.launch, i->endpoint, i->token); !ok)
        return ok;
  return {};
}

// Persists a change of keys, then notifies the callback.
result<void> join_server::change_keys(const std::function<void()>& change) {
  std::unique_lock lock(mutex_);
  const auto before = registry_.keys();
  change();
  if (registry_.keys() == before)
    return {};
  if (auto ok = record_keys(dir_, registry_.keys()); !ok)
    return ok;
  lock.unlock();
  std::lock_guard callback_lock(callback_mutex_);
  if (on_keys_)
    on_keys_();
  return {};
}

result<void> join_server::expect(const std::vector<node_config>& nodes, node_update now) {
  const auto recorded = change_keys([&] {
    registry_.use_nodes(std::move(now));
    for (const auto& n : nodes)
      if (n.is_elsewhere && !registry_.expect(n))
        warn_of_key(n.name);
  });
  return recorded ? launch(nodes) : recorded;
}

void join_server::dismiss(const std::string& node, node_update now) {
  launcher_->drop(node);
  std::lock_guard lock(mutex_);
  registry_.use_nodes(std::move(now));
  registry_.dismiss(node);
}

void join_server::forget_removed() {
  if (auto ok = change_keys([this] { registry_.forget_removed(); }); !ok)
    spdlog::error("{}", ok.error().message); // the next root removes them
}

result<void> join_server::open_socket(const key_pair& own) {
  socket_.reset(); // frees the port for the new socket
  auto socket =
      rpc_server::open(endpoint_, own, [this](std::string_view request, const std::string& key) {
        return answer(request, key);
      });
  if (!socket)
    return socket.error();
  socket_ = std::move(*socket);
  return {};
}

// Clients that ask during the change retry.
void join_server::use_key(const key_pair& own) {
  {
    std::lock_guard lock(mutex_);
    public_key_ = own.public_key;
    registry_.use_root_key(own.public_key);
  }
  for (const auto& i : invitations())
    launcher_->change_server(i.node, i.endpoint);
  for (int attempt = 0; attempt < rebind_attempts; ++attempt) {
    const auto ok = open_socket(own);
    if (ok)
      return;
    spdlog::warn("the join server with its new key: {}", ok.error().message);
    std::this_thread::sleep_for(rebind_interval);
  }
  spdlog::error("{}: no machine can join until the next `cluster up`", endpoint_);
}

std::string text_of(const join_server::invitation& i) {
  return fmt::format("node {} ({}) has not joined. There:\n\n    cluster join '{}' --node {}{}{}\n",
                     i.node, i.host, i.endpoint, i.node, i.token.empty() ? "" : " --token ",
                     i.token);
}

void join_server::tick() {
  launcher_->tick(node_launcher::clock::now());
}

void join_server::failed(const std::string& node, const std::string& why) {
  std::lock_guard lock(mutex_);
  registry_.record_failure(node, why);
  if (on_failed_)
    on_failed_(node, why);
}

std::string join_server::answer(std::string_view request, const std::string& public_key) {
  if (const auto c = key_change_from(request)) {
    std::unique_lock lock(mutex_);
    const auto before = registry_.keys();
    const auto a = answer_and_record(*c, public_key);
    const bool has_changed = registry_.keys() != before;
    lock.unlock();
    std::lock_guard callback_lock(callback_mutex_);
    if (has_changed && on_keys_)
      on_keys_();
    return text_of(a);
  }
  if (const auto asked = reach_request_from(request))
    return text_of(look(*asked, public_key));
  if (const auto asked = link_request_from(request))
    return measure(*asked, public_key);
  const auto r = join_request_from(request);
  if (!r)
    return text_of(join_answer{join_state::refused, "this is not a request to join", std::nullopt});
  std::unique_lock lock(mutex_);
  const bool was_missing = registry_.is_open() && !registry_.has_joined(r->node);
  const auto a = judge(*r, public_key);
  const bool is_late = was_missing && registry_.has_joined(r->node);
  lock.unlock();
  if (is_late) {
    std::lock_guard callback_lock(callback_mutex_);
    if (on_joined_)
      on_joined_(r->node, r->machine);
  }
  return text_of(a);
}

// Connects only to the machine that asks.
join_answer join_server::look(const reach_request& r, const std::string& public_key) const {
  std::unique_lock lock(mutex_);
  const auto host = registry_.host_of(r.node, public_key);
  lock.unlock();
  if (!host)
    return {join_state::refused, "this is not the key of node " + r.node, std::nullopt};
  const auto reached = try_to_reach(*host, r.port, reach_patience);
  if (reached)
    return {join_state::recorded, "", std::nullopt};
  return {join_state::refused,
          fmt::format("the machine of `cluster up` does not reach node {} ({}): its agent and its "
                      "shards listen there, at any port, so let its firewall pass them from there",
                      r.node, reached.error().message),
          std::nullopt};
}

// A machine that may not join gets no measurement; its request to join gets the reason.
std::string join_server::measure(const link_request& r, const std::string& public_key) const {
  std::lock_guard lock(mutex_);
  return registry_.may_ask(r, public_key)
             ? std::string(r.bytes, '.')
             : text_of(join_answer{join_state::refused, "not known here", std::nullopt});
}

// Persists a new key before it answers, so that processes started by the answer find it.
template <class Request>
join_answer join_server::answer_and_record(const Request& q, const std::string& public_key) {
  const auto before = registry_.keys();
  auto a = answer_of(registry_, q, public_key);
  if (registry_.keys() != before)
    if (auto ok = record_keys(dir_, registry_.keys()); !ok)
      a = {join_state::refused, ok.error().message, std::nullopt};
  return a;
}

join_answer join_server::judge(const join_request& r, const std::string& public_key) {
  auto a = answer_and_record(r, public_key);
  if (!r.failed.empty() && a.state != join_state::refused && on_failed_)
    on_failed_(r.node, r.failed);
  return a;
}

void join_server::on_keys(std::function<void()> callback) {
  std::lock_guard callback_lock(callback_mutex_);
  on_keys_ = std::move(callback);
}

void join_server::on_keys_confirmed(const std::string& node, machine_keys keys) {
  std::lock_guard lock(mutex_);
  registry_.confirm_keys(node, std::move(keys));
}

void join_server::on_failed(std::function<void(const std::string&, const std::string&)> callback) {
  std::lock_guard lock(mutex_);
  on_failed_ = std::move(callback);
}

void join_server::on_joined(
    std::function<void(const std::string&, const machine_facts&)> callback) {
  std::lock_guard callback_lock(callback_mutex_);
  on_joined_ = std::move(callback);
}

std::vector<join_server::invitation> join_server::invitations() const {
  std::lock_guard lock(mutex_);
  std::vector<invitation> all;
  for (const auto& m : registry_.expected())
    all.push_back({.node = m.node,
                   .host = m.host,
                   .endpoint = endpoint_ + "#" + public_key_,
                   .token = m.token,
                   .has_joined = m.facts.has_value(),
                   .failed = m.failed});
  return all;
}

std::optional<join_server::invitation> join_server::invitation_of(const std::string& node) const {
  for (auto& i : invitations())
    if (i.node == node)
      return i;
  return std::nullopt;
}

bool join_server::is_complete() const {
  std::lock_guard lock(mutex_);
  return registry_.is_complete();
}

machines join_server::gathered() const {
  std::lock_guard lock(mutex_);
  return registry_.gathered();
}

void join_server::remember(const machines& known) {
  std::lock_guard lock(mutex_);
  registry_.remember(known);
}

void join_server::grant(join_grant g) {
  std::lock_guard lock(mutex_);
  registry_.open(std::move(g));
}

void join_server::change(const generations& now) {
  std::lock_guard lock(mutex_);
  registry_.change(now);
}

} // namespace baton::cluster
