// `cluster join`: makes this machine a node of a cluster. Asks the join server of `cluster up`
// until there is a plan, checks that this machine can do its part, and becomes the node's agent.
#include "cluster/bus/bus_zmq_rpc.hpp"
#include "cluster/bus/reach.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/incarnation_clock.hpp"
#include "cluster/join/join_registry.hpp"
#include "cluster/join/link_probe.hpp"
#include "cluster/plan/device_check.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "runtime/model/open/open_model.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds join_answer_patience{3000};
constexpr std::chrono::milliseconds ask_interval{500};
constexpr std::chrono::milliseconds root_reach_patience{5000}; // the root may still be starting

// Creates a key if the machine has none; it is worthless until a cluster trusts it.
result<key_pair> own_key(const std::filesystem::path& file) {
  auto own = read_key_file(file);
  if (own || own.error().code != errc::not_found)
    return own;
  auto made = make_key_pair();
  if (auto ok = write_key_file(file, made); !ok)
    return ok.error();
  std::printf("made a key for this machine: %s\n", file.c_str());
  return made;
}

// Returns the grant, or none after ^C or SIGTERM.
result<std::optional<join_grant>> ask_until_granted(const std::string& server, const key_pair& own,
                                                    join_request request) {
  std::string shown;
  const auto show = [&](const std::string& text) {
    if (std::exchange(shown, text) != text)
      std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  };
  do {
    request.clock_micros = wall_micros();
    auto text = rpc_call(server, own, text_of(request), join_answer_patience);
    if (!text && text.error().code != errc::link_down)
      return text.error();
    if (!text) {
      show(text.error().message);
      continue;
    }
    auto answer = join_answer_from(*text);
    if (!answer)
      return fail(errc::version_mismatch,
                  "{} does not answer as a join server of this version does",
                  split_key(server).address);
    if (answer->state == join_state::refused)
      return fail(answer->reason.ends_with(other_build_advice) ? errc::version_mismatch
                                                               : errc::unauthorized,
                  "refused: {}", answer->reason);
    if (answer->state == join_state::granted)
      return std::move(answer->grant);
    show(answer->reason);
  } while (wait_for_end(ask_interval) == 0);
  return std::optional<join_grant>();
}

// Compares the weights; the file's time may differ.
result<void> check_model(const cluster_context& context, std::uint64_t fingerprint) {
  auto file = model::open_model(context.config.model.path);
  if (!file)
    return file.error();
  if ((*file)->fingerprint() != fingerprint)
    return fail(errc::bad_model_file,
                "{} is not the model file that the machine of `cluster up` has: copy it from there",
                context.config.model.path.string());
  return {};
}

// Writes the files that this machine's processes read, as on the root's machine.
result<cluster_contexts> settle(const run_dir& dir, const join_grant& grant,
                                const cluster_config& config, const std::string& node,
                                const std::filesystem::path& key_file) {
  if (auto ok = dir.write(dir.config().filename().string(), grant.nodes.config); !ok)
    return ok.error();
  if (auto ok = record_keys(dir, grant.keys); !ok)
    return ok.error();
  plan_record with;
  with.build = build_version();
  with.members = grant.nodes.members;
  with.known = grant.known;
  with.network = network_record{.host = grant.host,
                                .root_host = grant.root_host,
                                .port = grant.port,
                                .root_key = grant.root_key,
                                .key_file = std::filesystem::absolute(key_file)};
  for (std::uint32_t p = 0; p < grant.pipelines.size(); ++p)
    if (has_devices_on(config, p, node)) // other models need no file here
      with.pipelines[p].generations = agent_record_of(grant.pipelines[p].shards);
  auto all = load_contexts(dir.config(), with, dir);
  if (!all)
    return all;
  for (const auto& context : *all)
    if (auto ok = check_model(context, grant.pipelines.at(context.pipeline()).model_fingerprint);
        !ok)
      return ok.error();
  if (auto ok = record_plan(dir, all->base.made_with); !ok)
    return ok.error();
  return all;
}

// Checks that this machine reaches the root, and the root this machine.
result<void> check_reach(const join_options& options, const key_pair& own,
                         const join_grant& grant) {
  const auto root = try_to_reach(grant.root_host, grant.port, root_reach_patience);
  if (!root)
    return fail(errc::link_down,
                "the root is not reached from here ({}): let the firewall of its machine pass the "
                "ports from {} on, which cluster.port is",
                root.error().message, grant.port);
  auto port = open_port::listen(grant.host);
  if (!port)
    return fail(errc::bad_config, "{}: nodes.host must be this machine's address",
                port.error().message);
  const auto text =
      rpc_call(options.server, own, text_of(reach_request{options.node, port->number()}),
               join_answer_patience);
  if (!text)
    return text.error();
  const auto answer = join_answer_from(*text);
  if (!answer || answer->state != join_state::recorded)
    return fail(errc::link_down, "{}", answer ? answer->reason : *text);
  return {};
}

result<run_dir> claim(const join_options& options, const std::string& cluster_name) {
  auto dir =
      run_dir::open(options.run_dir.empty() ? default_run_dir(cluster_name) : options.run_dir);
  if (!dir)
    return dir;
  if (auto ok = dir->lock(); !ok)
    return ok.error();
  for (const auto& record : dir->alive())
    if (record.name == "root" || record.name == "agent-" + options.node)
      return fail(errc::conflict, "{} runs here already (pid {}, {})", record.name, record.pid,
                  dir->path().string());
  return dir;
}

} // namespace

int command_join(const join_options& options) {
  const auto key_file = options.key_file.empty() ? default_key_file() : options.key_file;
  auto own = own_key(key_file);
  if (!own)
    return refuse_start(own.error());
  auto token = options.token;
  if (token == "-") // keeps the token out of process lists
    std::getline(std::cin, token);
  join_request request{.node = options.node,
                       .token = token,
                       .build = std::string(build_version()),
                       .machine = measured_facts_of_this_machine(),
                       .failed = ""};
  request.machine.link = measure_link(options.server, *own, options.node, token);
  auto granted = ask_until_granted(options.server, *own, request);
  if (!granted) {
    const int status = refuse_start(granted.error());
    // Retry: the machine of `cluster up` may be upgraded after this one.
    return granted.error().code == errc::version_mismatch ? exit_failed : status;
  }
  if (!*granted)
    return exit_failed;
  const auto& grant = **granted;
  const auto cannot = [&](const error& why) {
    request.failed = why.message;
    request.clock_micros = wall_micros();
    static_cast<void>(rpc_call(options.server, *own, text_of(request), join_answer_patience));
    return refuse_start(why);
  };
  auto named = parse_config(grant.nodes.config, "nodes.toml");
  if (!named)
    return cannot(named.error());
  auto dir = claim(options, named->name);
  if (!dir)
    return cannot(dir.error());
  auto all = settle(*dir, grant, *named, options.node, key_file);
  if (!all)
    return cannot(all.error());
  for (const auto& n : all->base.config.nodes)
    if (n.name == options.node)
      if (auto ok = check_devices(all->base.config, n, *dir); !ok)
        return cannot(ok.error());
  if (auto ok = check_reach(options, *own, grant); !ok)
    return cannot(ok.error());
  const auto agents = agents_of(all->base.config);
  const auto* agent = agent_on(agents, options.node);
  if (agent == nullptr)
    return cannot(fail(errc::bad_config, "the root's plan has no node '{}'", options.node));
  role_arguments arguments;
  arguments.config = dir->config();
  arguments.incarnation = incarnation_clock(*dir, agent->name, wall_micros).next();
  arguments.index = process_ids::index_of_agent(agent->process);
  if (auto ok = record_running(*dir, named->name); !ok) // the node runs without it
    spdlog::warn("{}", ok.error().message);
  std::printf("joined as %s; log: %s\n", options.node.c_str(),
              dir->log("agent-" + options.node).c_str());
  std::fflush(stdout);
  const int status = run_agent(*all, arguments);
  forget_running(*dir);
  return status;
}

} // namespace baton::cluster
