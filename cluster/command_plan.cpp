// `cluster plan`: who would live where, without starting anything.
#include "cluster/commands.hpp"
#include "cluster/roles.hpp"

#include <cstdio>

namespace baton::cluster {
namespace {

// Machines that have not said what they have are taken to be like this one: their names.
std::vector<std::string> assume_the_rest(const cluster_config& config, machines& known) {
  std::vector<std::string> assumed;
  for (const auto& n : config.nodes)
    if (n.is_elsewhere && known.emplace(n.name, known.at(root_machine)).second)
      assumed.push_back(n.name);
  return assumed;
}

} // namespace

int command_plan(const std::filesystem::path& config_file, bool json) {
  const auto refuse = [](const error& e) {
    std::fprintf(stderr, "error: %s\n", e.message.c_str());
    return 1;
  };
  auto config = load_config(config_file);
  if (!config)
    return refuse(config.error());
  auto with = with_this_machine();
  // With what the machines of the running cluster, or of the last one, have said.
  if (auto dir = run_dir::open(config->run_dir))
    if (auto noted = noted_plan(*dir))
      with.known.merge(noted->known);
  const auto assumed = assume_the_rest(*config, with.known);
  auto all = load_contexts(config_file, std::move(with));
  if (!all)
    return refuse(all.error());
  const auto text = json ? plan_json(*all) : plan_table(*all);
  std::fputs(text.c_str(), stdout);
  if (!assumed.empty())
    std::fprintf(stderr, "note: node %s has not joined: taken to be like this machine\n",
                 fmt::format("{}", fmt::join(assumed, ", ")).c_str());
  return 0;
}

} // namespace baton::cluster
