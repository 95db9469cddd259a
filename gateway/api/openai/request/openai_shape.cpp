#include "gateway/api/openai/request/openai_shape.hpp"

#include <algorithm>

namespace baton::gateway {

void read_logprobs(field_reader& fields, openai_api api, const request_limits& limits,
                   openai_generate& out) {
  auto& wanted = out.request.terms.sampling.logprobs;
  const auto most = static_cast<std::int64_t>(limits.logprobs_max);
  if (api == openai_api::completions) {
    wanted = static_cast<std::int32_t>(fields.integer("logprobs", -1, 0, most));
  } else {
    const bool is_on = fields.boolean("logprobs", false);
    const auto top = fields.integer("top_logprobs", 0, 0, most);
    if (top > 0 && !is_on) {
      fields.refuse(errc::invalid_value, "top_logprobs",
                    "'top_logprobs' needs 'logprobs' to be true");
    }
    wanted = is_on ? static_cast<std::int32_t>(top) : -1;
  }
  out.shape.has_logprobs = wanted >= 0;
  out.shape.names_tokens_by_id = fields.boolean("return_tokens_as_token_ids", false);
}

void read_token_ids(field_reader& fields, openai_generate& out) {
  out.shape.has_token_ids = fields.boolean("return_token_ids", false);
  out.request.terms.wants_prompt_ids = out.shape.has_token_ids;
}

void read_best_of(field_reader& fields, const request_limits& limits, openai_generate& out) {
  const auto given = out.request.terms.choices;
  const auto drawn = static_cast<std::uint32_t>(fields.integer(
      "best_of", given, given, static_cast<std::int64_t>(std::max(limits.choices_max, given))));
  if (drawn == given) {
    return;
  }
  if (out.shape.is_stream) {
    fields.refuse(errc::invalid_value, "best_of",
                  "'best_of' above 'n' needs whole answers to choose from: not with 'stream'");
  }
  out.shape.best_of = out.request.terms.choices = drawn;
  out.request.terms.sampling.logprobs = std::max(0, out.request.terms.sampling.logprobs);
}

void read_stream(field_reader& fields, reply_shape& shape) {
  shape.is_stream = fields.boolean("stream", false);
  const auto* options = fields.find("stream_options");
  if (!options) {
    return;
  }
  if (!options->is_object()) {
    fields.refuse_type("stream_options", "an object", *options);
    return;
  }
  if (!shape.is_stream) {
    fields.refuse(errc::invalid_value, "stream_options",
                  "'stream_options' needs 'stream' to be true");
    return;
  }
  field_reader inner(*options, "stream_options.");
  shape.includes_usage = inner.boolean("include_usage", false);
  // As in vLLM: without a final usage there is no running usage.
  shape.has_running_usage = inner.boolean("continuous_usage_stats", false) && shape.includes_usage;
  inner.boolean("include_obfuscation", false); // OpenAI's padding against traffic analysis
  if (auto ok = inner.finish(); !ok) {
    fields.refuse(ok.error());
  }
}

} // namespace baton::gateway
