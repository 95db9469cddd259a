#include "gateway/api/openai/request/openai_reasoning.hpp"

#include "gateway/base/json_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t effort_bytes_max = 16;
constexpr std::array<std::string_view, 6> efforts{"none",   "minimal", "low",
                                                  "medium", "high",    "xhigh"};

void put_budget(std::int32_t tokens_max, sampling_params& to) {
  constraint bounded = to.constraint ? *to.constraint : constraint{constraint_kind::free, {}};
  bounded.reasoning_tokens_max = tokens_max;
  to.constraint = std::move(bounded);
}

} // namespace

// The variables of templates: `enable_thinking` of Qwen 3, GLM and SmolLM3, `thinking` of DeepSeek
// and Granite, `reasoning_effort` of gpt-oss. The client's own values are kept.
void put_reasoning_kwargs(const asked_reasoning& asked, std::string& kwargs) {
  auto all = kwargs.empty() ? ordered::object()
                            : ordered::parse(kwargs, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) {
    return; // the head refuses it
  }
  const auto put = [&all](const char* name, ordered value) {
    if (!all.contains(name)) {
      all[name] = std::move(value);
    }
  };
  if (asked.is_on) {
    put("enable_thinking", *asked.is_on);
    put("thinking", *asked.is_on);
  }
  if (!asked.effort.empty() && asked.effort != efforts.front()) {
    put("reasoning_effort", asked.effort);
  }
  kwargs = all.empty() ? std::string() : json_text(all);
}

void ask_effort(field_reader& fields, std::string_view name, asked_reasoning& out) {
  const auto effort = fields.text(name, {}, effort_bytes_max);
  if (std::find(efforts.begin(), efforts.end(), effort) == efforts.end()) {
    fields.refuse(
        errc::invalid_value, name,
        fmt::format("'{}' must be 'none', 'minimal', 'low', 'medium', 'high' or 'xhigh'", name));
    return;
  }
  out.effort = effort;
  out.is_on = effort != efforts.front();
  out.param = name;
}

void read_reasoning(field_reader& fields, openai_generate& out) {
  auto& asked = out.reasoning;
  if (fields.find("reasoning_effort")) {
    ask_effort(fields, "reasoning_effort", asked);
  }
  out.shape.includes_reasoning = fields.boolean("include_reasoning", true);
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  asked.tokens_max =
      static_cast<std::int32_t>(fields.integer("thinking_token_budget", -1, -1, most));
  if (asked.tokens_max >= 0) {
    asked.param = "thinking_token_budget";
  }
}

result<void> settle_reasoning(openai_generate& call, const model_card& card) {
  const auto& asked = call.reasoning;
  call.shape.reads_reasoning = card.reasoning != reasoning_format::none;
  if (!call.shape.reads_reasoning) {
    // Anthropic's clients send "high", its default, with every request.
    const bool has_effort =
        !asked.effort.empty() && asked.effort != "none" && asked.effort != "high";
    const bool is_asked =
        has_effort || (asked.is_on.value_or(false) && !asked.is_optional) || asked.tokens_max >= 0;
    return is_asked ? fail_param(errc::unsupported_parameter, asked.param,
                                 "'{}': the model '{}' does not reason: its chat template has no "
                                 "marks for it",
                                 asked.param, card.name)
                    : result<void>();
  }
  put_reasoning_kwargs(asked, call.request.template_options.kwargs);
  if (asked.tokens_max >= 0) {
    put_budget(asked.tokens_max, call.request.terms.sampling);
  }
  return {};
}

} // namespace baton::gateway
