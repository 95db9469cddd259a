// `cluster plan`: who would live where, without starting anything.
#include "cluster/commands.hpp"
#include "cluster/roles.hpp"

#include <cstdio>

namespace baton::cluster {

int command_plan(const std::filesystem::path& config, bool json) {
  auto context = load_context(config, with_this_machine());
  if (!context) {
    std::fprintf(stderr, "error: %s\n", context.error().message.c_str());
    return 1;
  }
  auto text = json ? plan_json(context->config, context->model, context->plan)
                   : plan_table(context->config, context->model, context->plan);
  std::fputs(text.c_str(), stdout);
  return 0;
}

} // namespace baton::cluster
