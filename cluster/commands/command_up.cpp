// `cluster up`: waits for remote machines, if there are any, then becomes the root.
#include "cluster/commands/commands.hpp"
#include "cluster/commands/launch_fit.hpp"
#include "cluster/commands/model_download.hpp"
#include "cluster/config/imported/model_launch.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/files/root_log.hpp"
#include "cluster/hub/known_models.hpp"
#include "cluster/hub/model_reference.hpp"
#include "cluster/join/join_server.hpp"
#include "cluster/plan/device_check.hpp"
#include "cluster/roles/files_check.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "cluster/roles/root/root_claim.hpp"
#include "runtime/model/open/open_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds signal_look_interval{50};

int refuse_up(const error& e, bool json) {
  if (json)
    std::puts(json_text(nlohmann::ordered_json{{"event", "error"},
                                               {"code", row_of(e.code).name},
                                               {"message", e.message}})
                  .c_str());
  else
    std::fprintf(stderr, "error: %s\n", e.message.c_str());
  return exit_status_of(e.code);
}

void show(const join_server::invitation& i, bool json) {
  if (json) {
    std::puts(json_text(nlohmann::ordered_json{{"event", "join"},
                                               {"node", i.node},
                                               {"host", i.host},
                                               {"endpoint", i.endpoint},
                                               {"token", i.token},
                                               {"joined", i.has_joined},
                                               {"failed", i.failed}})
                  .c_str());
  } else if (!i.failed.empty()) {
    std::printf("  node %s cannot: %s\n", i.node.c_str(), i.failed.c_str());
  } else if (i.has_joined) {
    std::printf("  node %s has joined\n", i.node.c_str());
  } else {
    std::printf("  %s\n", text_of(i).c_str());
  }
  std::fflush(stdout);
}

// False if ^C or SIGTERM came first.
bool wait_for_all(join_server& server, bool json) {
  std::map<std::string, std::pair<bool, std::string>> shown;
  for (;;) {
    server.tick();
    for (const auto& i : server.invitations()) {
      const std::pair now{i.has_joined, i.failed};
      const auto was = shown.find(i.node);
      if (was == shown.end() || was->second != now)
        show(i, json);
      shown[i.node] = now;
    }
    if (server.is_complete())
      return true;
    if (const int number = wait_for_end(signal_look_interval); number != 0)
      return false;
  }
}

// The nodes.toml of one model, stored.
result<std::filesystem::path> config_of_launch(const model_launch& of) {
  const auto text = fitted_config_of(of);
  return text ? store_launch(*text, cluster_name_of(of.name)) : text.error();
}

result<join_grant> grant_of(const cluster_contexts& all, const std::string& root_key) {
  const auto& cluster = all.base;
  join_grant g;
  g.nodes = {cluster.text, cluster.made_with.members};
  g.known = cluster.made_with.known;
  g.root_host = cluster.config.network.host;
  g.port = cluster.config.network.port;
  g.root_key = root_key;
  for (const auto& c : all) {
    auto file = model::open_model(c.config.model.path);
    if (!file)
      return file.error();
    g.pipelines.push_back({(*file)->fingerprint(), c.record().generations->now});
  }
  return g;
}

// Checks the devices of this machine's nodes before anything starts.
result<void> check_devices_here(const cluster_config& config, const run_dir& dir) {
  for (const auto& node : config.nodes)
    if (!node.is_elsewhere)
      if (auto ok = check_devices(config, node, dir); !ok)
        return ok.error();
  return {};
}

int up_over_machines(const cluster_config& config, const up_options& options, plan_record with,
                     bool is_left) {
  const auto key_file =
      config.network.key_file.empty() ? default_key_file() : config.network.key_file;
  const auto refused = [&](const error& e) { return refuse_up(e, options.json); };
  auto own = read_key_file(key_file);
  if (!own)
    return refused(own.error());
  auto dir = run_dir::open(config.run_dir);
  if (!dir)
    return refused(dir.error());
  auto server = join_server::open(config, *dir, *own, std::string(build_version()));
  if (!server)
    return refused(server.error());
  if (auto ok = open_root_log(*dir, config.log_level); !ok) // no other process uses the join server
    return refused(ok.error());
  if (is_left) {
    (*server)->remember(with.known);
  } else {
    with.known.at(root_machine) = measured_facts_of_this_machine();
    if (!wait_for_all(**server, options.json))
      return exit_failed;
    with.known.merge((*server)->gathered());
    with.network = network_record{.host = config.network.host,
                                  .root_host = config.network.host,
                                  .port = config.network.port,
                                  .root_key = own->public_key,
                                  .key_file = std::filesystem::absolute(key_file)};
  }
  auto all = load_contexts(options.config, std::move(with));
  if (!all)
    return refused(all.error());
  auto grant = grant_of(*all, own->public_key);
  if (!grant)
    return refused(grant.error());
  (*server)->grant(std::move(*grant));
  return run_root(*all, options, server->get());
}

} // namespace

int command_up(const up_options& given) {
  auto options = given;
  const auto refused = [&](const error& e) { return refuse_up(e, options.json); };
  std::error_code failed;
  const auto text = options.config.string();
  if (is_model(options.config) || is_explicit_reference(text) ||
      (!std::filesystem::exists(options.config, failed) &&
       (is_reference(text) || nearest_known_model(text)))) {
    auto model = find_model(text, hub_settings_here());
    if (!model)
      return refused(model.error());
    auto stored =
        config_of_launch({.model = std::move(model->path), .name = std::move(model->name)});
    if (!stored)
      return refused(stored.error());
    options.config = *std::move(stored);
  }
  auto config = load_config(options.config);
  if (!config)
    return refused(config.error());
  if (auto ok = check_gateway(config->gateway); !ok)
    return refused(ok.error());
  const auto dir = run_dir::open(config->run_dir);
  if (!dir)
    return refused(dir.error());
  if (auto ok = check_not_running(*dir, *config); !ok)
    return refused(ok.error());
  // If a root has left its cluster running, the plan is the one of its start.
  auto with = with_this_machine();
  const bool is_left = !dir->alive().empty();
  if (is_left) {
    auto recorded = recorded_plan(*dir);
    if (!recorded)
      return refused(left_with_another(*dir, config->name, "and has recorded no plan"));
    with = std::move(*recorded);
    auto members = with.members; // of that cluster, except for nodes that were added to nodes.toml
    if (auto ok = assign_agent_indices(members, *config); !ok)
      return refused(left_with_another(*dir, config->name,
                                       fmt::format("with another configuration than {}: {}",
                                                   options.config.string(), ok.error().message)));
  } else {
    if (auto ok = check_gateway_is_free(config->gateway); !ok)
      return refused(ok.error());
    if (auto ok = check_workers_here(*config, options.config); !ok)
      return refused(ok.error());
    if (auto ok = check_files(*config, with); !ok)
      return refused(ok.error());
    if (auto ok = check_devices_here(*config, *dir); !ok)
      return refused(ok.error());
  }
  if (config->is_over_network())
    return up_over_machines(*config, options, std::move(with), is_left);
  auto all = load_contexts(options.config, std::move(with));
  return all ? run_root(*all, options) : refused(all.error());
}

} // namespace baton::cluster
