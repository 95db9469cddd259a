// `cluster rotate-key`: replaces this machine's key while its cluster runs.
//
//   FILE.next is made --the join server and all machines trust it--> it becomes FILE
//     --the processes here listen with it--> the join server revokes older keys
//
// If interrupted, run it again: until the end both keys are valid.
#include "cluster/bus/bus_zmq_rpc.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/join/join_registry.hpp"
#include "cluster/plan/addresses.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{30}; // for each step
constexpr std::chrono::milliseconds server_answer_patience{2000};
constexpr std::chrono::milliseconds key_look_interval{100};

// This machine, as the others know it.
struct here {
  run_dir dir;
  network_record network;
  std::string node;
  std::string shown; // for people

  std::string file() const { return network.key_file.string(); }
};

result<here> look_around(const run_dir& dir) {
  const auto plan = recorded_plan(dir);
  if (!plan || !plan->network)
    return fail(errc::conflict, "this cluster is on one machine: its processes connect through "
                                "private sockets, without keys");
  auto own = read_key_file(plan->network->key_file);
  if (!own)
    return own.error();
  const auto keys = recorded_keys(dir);
  const auto* node = keys.owner(own->public_key);
  if (node == nullptr)
    return fail(errc::conflict, "{}: the cluster that runs here does not know this key",
                plan->network->key_file.string());
  const bool is_root = *node == root_machine;
  return here{dir, *plan->network, *node,
              is_root ? std::string("the machine of `cluster up`") : "node " + *node};
}

result<key_pair> next_pair(const std::filesystem::path& file) {
  auto pair = read_key_file(file); // of an interrupted run
  if (pair || pair.error().code != errc::not_found)
    return pair;
  const auto made = make_key_pair();
  if (auto ok = write_key_file(file, made); !ok)
    return ok.error();
  return made;
}

// Repeats the change until it is noted; returns the remark. Errors: unauthorized, link_down.
result<std::string> notify_server(const here& at, const key_pair& with, const key_change& what) {
  const auto address =
      fmt::format("tcp://{}:{}", at.network.root_host, at.network.port + join_port_offset);
  auto server_key =
      at.node == root_machine ? with.public_key : recorded_keys(at.dir).newest(root_machine);
  if (server_key.empty())
    server_key = at.network.root_key;
  error last;
  std::string shown;
  for (const auto until = clock::now() + patience; clock::now() < until;
       std::this_thread::sleep_for(key_look_interval)) {
    auto text = rpc_call(address + "#" + server_key, with, text_of(what), server_answer_patience);
    if (!text) {
      last = text.error();
      server_key =
          recorded_keys(at.dir).next_after(server_key); // the server may be changing its own key
      continue;
    }
    const auto answer = join_answer_from(*text);
    if (!answer)
      return fail(errc::version_mismatch,
                  "{} does not answer as a join server of this version does", address);
    if (answer->state == join_state::refused)
      return fail(errc::unauthorized, "refused: {}", answer->reason);
    if (answer->state == join_state::recorded)
      return answer->reason;
    last = fail(errc::link_down, "{}", answer->reason);
    if (std::exchange(shown, answer->reason) != answer->reason)
      std::printf("  %s\n", answer->reason.c_str());
    std::fflush(stdout);
  }
  if (!shown.empty())
    last.message += ": it would be locked out until it joins again; --force continues without it";
  return last;
}

// Errors: deadline_exceeded, naming the process that is late.
result<std::size_t> wait_until_all_use(const here& at, const std::string& key) {
  for (const auto until = clock::now() + patience;;) {
    const auto alive = at.dir.alive();
    const auto late = std::find_if(alive.begin(), alive.end(), [&](const process_record& n) {
      return at.dir.recorded_key(n.name) != key;
    });
    if (late == alive.end())
      return alive.size();
    if (clock::now() > until)
      return fail(errc::deadline_exceeded,
                  "{} (pid {}) does not listen with the new key yet: the old one stays trusted; "
                  "look at {}, then run this again",
                  late->name, late->pid, at.dir.log(late->name).string());
    std::this_thread::sleep_for(key_look_interval);
  }
}

} // namespace

int command_rotate_key(const rotate_options& options) {
  const auto found = find_cluster(options.which);
  if (!found)
    return refuse_search(found.error());
  const auto at = look_around(found->dir);
  if (!at)
    return refuse_command(at.error());
  const auto own = read_key_file(at->network.key_file);
  const std::filesystem::path next_file = at->file() + ".next";
  const auto next = next_pair(next_file);
  if (!own || !next)
    return refuse_command(own ? next.error() : own.error());
  std::printf("the next key of %s is %s\n", at->shown.c_str(), next->public_key.c_str());
  if (auto ok = notify_server(*at, *own, {at->node, next->public_key, !options.force}); !ok)
    return refuse_command(ok.error());
  std::printf("  it is trusted\n");
  std::error_code failed;
  std::filesystem::rename(next_file, at->network.key_file, failed);
  if (failed)
    return refuse_command(fail(errc::io_failed, "{}: {}", at->file(), failed.message()));
  const auto count = wait_until_all_use(*at, next->public_key);
  if (!count)
    return refuse_command(count.error());
  std::printf("  %zu processes of this machine use it\n", *count);
  const auto remark = notify_server(*at, *next, {at->node, "", true});
  if (!remark)
    return refuse_command(remark.error());
  std::printf("  the old one is revoked\n");
  if (at->node == root_machine)
    std::printf("new machines join with the address tcp://%s:%d#%s\n",
                at->network.root_host.c_str(), at->network.port + join_port_offset,
                next->public_key.c_str());
  if (!remark->empty())
    std::printf("%s\n", remark->c_str());
  return 0;
}

} // namespace baton::cluster
