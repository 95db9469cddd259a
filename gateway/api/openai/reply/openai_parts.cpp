#include "gateway/api/openai/reply/openai_parts.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {

using ordered = nlohmann::ordered_json;

logprobs_style style_of(const reply_shape& shape) {
  return {shape.api, shape.names_tokens_by_id};
}

std::vector<token_id> ids_of_prompt(const std::vector<token_detail>& prompt) {
  std::vector<token_id> ids;
  for (const auto& d : prompt) {
    ids.push_back(d.chosen.token);
  }
  return ids;
}

ordered openai_usage(const token_usage& u, const reply_shape& shape) {
  ordered out{{"prompt_tokens", u.prompt_tokens},
              {"completion_tokens", u.output_tokens},
              {"total_tokens", u.prompt_tokens + u.output_tokens},
              {"prompt_tokens_details", {{"cached_tokens", u.cached_tokens}}}};
  if (shape.reads_reasoning) {
    out["completion_tokens_details"] = {{"reasoning_tokens", u.reasoning_tokens}};
  }
  return out;
}

void put_reasoning(ordered& to, const std::string& reasoning) {
  to["reasoning_content"] = reasoning;
  to["reasoning"] = reasoning;
}

void note_prompt(const chunk& c, std::uint32_t choices, std::vector<token_usage>& prompts) {
  auto& u = prompts[c.choice / choices];
  u.prompt_tokens = std::max<std::uint64_t>(u.prompt_tokens, c.prompt_tokens);
  if (c.choice % choices == 0) {
    u.cached_tokens = c.cached_tokens;
  }
}

token_usage sum_of(const std::vector<token_usage>& prompts) {
  token_usage sum;
  for (const auto& u : prompts) {
    sum.prompt_tokens += u.prompt_tokens;
    sum.cached_tokens += u.cached_tokens;
  }
  return sum;
}

std::string_view finish_reason_name(finish how, bool has_calls) noexcept {
  return has_calls && how == finish::stop ? "tool_calls" : finish_name(how);
}

std::string reply_id(openai_api api, ticket_id ticket) {
  return fmt::format("{}-{}", api == openai_api::chat ? "chatcmpl" : "cmpl", ticket.value);
}

} // namespace baton::gateway
