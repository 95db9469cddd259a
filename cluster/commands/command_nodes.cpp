// `cluster drain NODE`, `add-node NODE`, `remove-node NODE` and `scale MODEL`: request other shards
// from the root, and wait until they serve.
#include "cluster/commands/commands.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/roles/root/root_client.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds change_look_interval{100};
// A restarting root does not answer for a while.
constexpr int failed_looks_max = 5;

using numbers = std::vector<std::uint32_t>; // of generations

bool has(const numbers& some, std::uint32_t number) {
  return std::find(some.begin(), some.end(), number) != some.end();
}

// Errors: link_down (the root does not answer any more), deadline_exceeded.
result<cluster_status> wait_until_settled(const run_dir& dir, const numbers& begun) {
  const auto until = std::chrono::steady_clock::now() + change_patience + std::chrono::minutes(1);
  int failed_looks = 0;
  for (;;) {
    auto s = ask_status(dir);
    failed_looks = s ? 0 : failed_looks + 1;
    if (failed_looks == failed_looks_max)
      return s;
    if (s && std::none_of(s->pipelines.begin(), s->pipelines.end(), [&](const pipeline_status& p) {
          return has(begun, p.coming_generation);
        }))
      return s;
    if (std::chrono::steady_clock::now() > until)
      return fail(errc::deadline_exceeded, "generation {} is still being started: `cluster status`",
                  fmt::join(begun, ", "));
    std::this_thread::sleep_for(change_look_interval);
  }
}

// Sends the order and prints the result: `done`, with the generations that serve.
int change_and_wait(const std::string& which, const message& order, const std::string& done) {
  const auto found = find_cluster(which);
  if (!found)
    return refuse_search(found.error());
  const auto begun = ask_to_change(found->dir, order);
  if (!begun)
    return refuse_command(begun.error());
  if (begun->refused)
    return refuse_command(*begun->refused);
  numbers coming{begun->generation};
  coming.insert(coming.end(), begun->further.begin(), begun->further.end());
  const auto now = wait_until_settled(found->dir, coming);
  if (!now)
    return refuse_command(now.error());
  std::size_t serve = 0;
  for (const auto& p : now->pipelines)
    serve += has(coming, p.generation) ? 1 : 0;
  if (serve < coming.size()) {
    for (const auto& p : now->pipelines)
      if (!has(coming, p.generation) && !p.change.empty())
        std::fprintf(stderr, "error: %s\n", p.change.c_str());
    return 1;
  }
  std::printf("%s now (generation %s)\n", done.c_str(),
              fmt::format("{}", fmt::join(coming, ", ")).c_str());
  return 0;
}

} // namespace

int command_change_nodes(const std::string& node, const std::string& which, bool is_drain) {
  return change_and_wait(which, change_nodes{1, node, is_drain},
                         fmt::format("node {} {} layers", node, is_drain ? "has no" : "has"));
}

// A node with layers is drained first.
int command_remove_node(const std::string& node, const std::string& which) {
  const auto found = find_cluster(which);
  if (!found)
    return refuse_search(found.error());
  const message order = remove_node{1, node};
  auto removed = ask_to_change(found->dir, order);
  if (removed && removed->refused && removed->refused->code == errc::conflict) {
    if (const int status = command_change_nodes(node, which, /*is_drain=*/true); status != 0)
      return status;
    removed = ask_to_change(found->dir, order);
  }
  if (!removed)
    return refuse_command(removed.error());
  if (removed->refused)
    return refuse_command(*removed->refused);
  std::printf("node %s is removed from the cluster; remove its [[nodes]] table from nodes.toml "
              "before the next `cluster up`\n",
              node.c_str());
  return 0;
}

int command_scale(const scale_options& options) {
  std::string done;
  if (options.replicas > 0)
    done += fmt::format(" has {} replica{}", options.replicas, options.replicas == 1 ? "" : "s");
  if (options.tensor_parallel_size > 0)
    done += fmt::format("{} stages of {} rank{}", done.empty() ? " has" : ",",
                        options.tensor_parallel_size, options.tensor_parallel_size == 1 ? "" : "s");
  return change_and_wait(
      options.which, scale_model{1, options.model, options.replicas, options.tensor_parallel_size},
      fmt::format("model {}{}", options.model, done));
}

} // namespace baton::cluster
