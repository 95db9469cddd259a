// `cluster plan`: shows the placement without starting anything.
#include "cluster/commands/commands.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/device_check.hpp"
#include "cluster/plan/expected_speed.hpp"
#include "cluster/roles/files_check.hpp"
#include "cluster/roles/roles.hpp"

#include <algorithm>
#include <cstdio>

namespace baton::cluster {
namespace {

// Assumes that machines without known facts equal this one; returns their names.
std::vector<std::string> assume_the_rest(const cluster_config& config, machines& known) {
  std::vector<std::string> assumed;
  for (const auto& n : config.nodes)
    if (n.is_elsewhere && known.emplace(n.name, assumed_machine(n, known.at(root_machine))).second)
      assumed.push_back(n.name);
  return assumed;
}

// Whether a measurement of one pipeline holds for the other.
bool is_alike(const cluster_context& a, const cluster_context& b) {
  return a.config.model.path == b.config.model.path &&
         std::equal(a.plan.shards.begin(), a.plan.shards.end(), b.plan.shards.begin(),
                    b.plan.shards.end(), [](const shard_plan& x, const shard_plan& y) {
                      return x.threads == y.threads && x.layers == y.layers &&
                             (x.machine == root_machine) == (y.machine == root_machine);
                    });
}

// Reports what cannot be measured and leaves it out.
expected_speeds expect_all(const cluster_contexts& all) {
  expected_speeds expected;
  for (const auto& c : all) {
    const auto like =
        std::find_if(all.begin(), all.begin() + expected.size(),
                     [&](const cluster_context& other) { return is_alike(other, c); });
    if (const auto at = static_cast<std::size_t>(like - all.begin()); at < expected.size()) {
      expected.push_back(expected[at]);
      continue;
    }
    auto speeds = expect(c.config, c.model, c.plan, c.made_with.known);
    if (!speeds)
      std::fprintf(stderr, "note: no speed was measured: %s\n", speeds.error().message.c_str());
    expected.push_back(speeds ? *std::move(speeds) : std::vector<expected_speed>());
  }
  return expected;
}

} // namespace

int command_plan(const std::filesystem::path& config_file, bool json) {
  auto config = load_config(config_file);
  if (!config)
    return refuse_start(config.error());
  if (auto ok = check_workers_here(*config, config_file); !ok)
    return refuse_start(ok.error());
  const unused_run_dir looked_at(config->run_dir);
  auto with = with_this_machine();
  if (auto ok = check_files(*config, with); !ok)
    return refuse_start(ok.error());
  if (config->is_over_network())
    with.known.at(root_machine) = measured_facts_of_this_machine();
  // Includes the facts of machines of the running or last cluster.
  if (auto dir = run_dir::open(config->run_dir))
    if (auto recorded = recorded_plan(*dir))
      with.known.merge(recorded->known);
  const auto assumed = assume_the_rest(*config, with.known);
  auto all = load_contexts(config_file, std::move(with));
  if (!all)
    return refuse_start(all.error());
  const auto expected = expect_all(*all);
  const auto text = json ? plan_json(*all, expected) : plan_table(*all, expected);
  std::fputs(text.c_str(), stdout);
  for (const auto& each : all->base.config.passed_over)
    std::fprintf(stderr, "warning: %s is not served: %s\n", each.path.string().c_str(),
                 each.why.c_str());
  if (!assumed.empty())
    std::fprintf(stderr, "note: node %s has not joined: taken to be like this machine\n",
                 fmt::format("{}", fmt::join(assumed, ", ")).c_str());
  return 0;
}

} // namespace baton::cluster
