#include "gateway/routes/placeholder_model.hpp"

#include <algorithm>
#include <string>

namespace baton::gateway {
namespace {

bool has(const std::vector<std::string>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

} // namespace

bool is_placeholder(const gateway_state& facts, std::string_view model) {
  const auto& config = facts.config();
  if (!has(config.placeholder_models, model) || has(config.model_aliases, model)) {
    return false;
  }
  const auto now = facts.look();
  const auto& served = model_of(first_of(*now));
  return !now->pipelines.empty() && served != model &&
         std::all_of(now->pipelines.begin(), now->pipelines.end(),
                     [&](const pipeline_view& p) { return model_of(p) == served; });
}

void settle_model(openai_generate& call, const gateway_state& facts) {
  if (!is_placeholder(facts, call.request.model)) {
    return;
  }
  call.request.model.clear();
  call.shape.model.clear();
  for (auto& request : call.further) {
    request.model.clear();
  }
}

void settle_model(tgi_generate& call, const gateway_state& facts) {
  if (is_placeholder(facts, call.request.model)) {
    call.request.model.clear();
  }
}

void settle_model(tokenize_call& call, const gateway_state& facts) {
  if (is_placeholder(facts, call.model)) {
    call.model.clear();
  }
}

} // namespace baton::gateway
