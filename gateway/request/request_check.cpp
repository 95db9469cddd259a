#include "gateway/request/request_check.hpp"

#include "gateway/request/model_defaults.hpp"
#include "runtime/grammar/compile.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

struct real_field {
  const char* name;
  float value;
  const real_range& range;
};

result<void> check_sampling(const sampling_params& s, const request_limits& limits) {
  const real_field fields[] = {
      {"temperature", s.temperature, temperature_range},
      {"top_p", s.top_p, top_p_range},
      {"min_p", s.min_p, min_p_range},
      {"typical_p", s.typical_p, typical_p_range},
      {"watermark_gamma", s.watermark_gamma, watermark_gamma_range},
      {"watermark_delta", s.watermark_delta, watermark_delta_range},
      {"repetition_penalty", s.repetition_penalty, repetition_penalty_range},
      {"presence_penalty", s.presence_penalty, penalty_range},
      {"frequency_penalty", s.frequency_penalty, penalty_range},
  };
  for (const auto& f : fields) {
    if (!f.range.contains(f.value)) {
      return out_of_range(f.name, f.range, f.value);
    }
  }
  if (s.top_k < 0 || s.top_k > top_k_max) {
    return fail_param(errc::invalid_value, "top_k", "'top_k' must be between 0 and {}, not {}",
                      top_k_max, s.top_k);
  }
  if (s.num_speculative_tokens < -1 || s.num_speculative_tokens > speculative_tokens_max) {
    return fail_param(errc::invalid_value, "num_speculative_tokens",
                      "'num_speculative_tokens' must be between 0 and {}, not {}",
                      speculative_tokens_max, s.num_speculative_tokens);
  }
  const auto most = static_cast<std::int32_t>(limits.logprobs_max);
  if (s.logprobs < -1 || s.logprobs > most) {
    return fail_param(errc::invalid_value, "logprobs",
                      "'logprobs' must be between 0 and {}, not {}", most, s.logprobs);
  }
  if (s.prompt_logprobs < -1 || s.prompt_logprobs > most) {
    return fail_param(errc::invalid_value, "prompt_logprobs",
                      "'prompt_logprobs' must be between 0 and {}, not {}", most,
                      s.prompt_logprobs);
  }
  if (s.biases.size() > limits.logit_biases_max) {
    return fail_param(errc::invalid_value, "logit_bias",
                      "'logit_bias' has {} entries of at most {}", s.biases.size(),
                      limits.logit_biases_max);
  }
  for (const auto& b : s.biases) {
    if (!bias_range.contains(b.bias)) {
      return out_of_range("logit_bias", bias_range, b.bias);
    }
  }
  return {};
}

// `may_be_none`: an answer without tokens is allowed.
result<void> check_stopping(const stopping& s, const request_limits& limits, bool may_be_none) {
  if ((s.max_tokens < 1 && !may_be_none) || s.max_tokens > limits.max_tokens) {
    return fail_param(errc::invalid_value, "max_tokens",
                      "'max_tokens' must be between 1 and {}, not {}", limits.max_tokens,
                      s.max_tokens);
  }
  if (s.min_tokens > limits.max_tokens) {
    return fail_param(errc::invalid_value, "min_tokens",
                      "'min_tokens' must be between 0 and {}, not {}", limits.max_tokens,
                      s.min_tokens);
  }
  if (s.stop_texts.size() > limits.stop_texts_max) {
    return fail_param(errc::invalid_value, "stop", "'stop' has {} strings of at most {}",
                      s.stop_texts.size(), limits.stop_texts_max);
  }
  for (const auto& text : s.stop_texts) {
    if (text.empty() || text.size() > limits.stop_text_bytes_max) {
      return fail_param(errc::invalid_value, "stop",
                        "a string of 'stop' must have 1 to {} bytes, not {}",
                        limits.stop_text_bytes_max, text.size());
    }
  }
  if (s.stop_ids.size() > limits.stop_ids_max) {
    return fail_param(errc::invalid_value, "stop_token_ids",
                      "'stop_token_ids' has {} entries of at most {}", s.stop_ids.size(),
                      limits.stop_ids_max);
  }
  return {};
}

result<void> check_prompt(const prompt& input, const request_limits& limits) {
  if (const auto* ids = std::get_if<ids_prompt>(&input)) {
    if (ids->empty() || ids->size() > limits.prompt_ids_max) {
      return fail_param(errc::invalid_value, "prompt", "'prompt' must have 1 to {} ids, not {}",
                        limits.prompt_ids_max, ids->size());
    }
  } else if (const auto* chat = std::get_if<chat_prompt>(&input)) {
    if (chat->empty() || chat->size() > limits.messages_max) {
      return fail_param(errc::invalid_value, "messages",
                        "'messages' must have 1 to {} messages, not {}", limits.messages_max,
                        chat->size());
    }
  }
  return {};
}

} // namespace

void normalize_numbers(sampling_params& s) noexcept {
  s.temperature = s.temperature < temperature_least ? 0 : s.temperature;
  for (auto* number : {&s.min_p, &s.presence_penalty, &s.frequency_penalty, &s.watermark_gamma,
                       &s.watermark_delta}) {
    *number = std::isnormal(*number) ? *number : 0;
  }
}

result<void> check_min_tokens(const generate& request) {
  const auto& s = request.terms.stop;
  const bool is_given = (request.unspecified & bit_of(sampling_field::max_tokens)) == 0;
  if (is_given && request.terms.max_tokens_given && s.min_tokens > s.max_tokens) {
    return fail_param(errc::invalid_value, "min_tokens",
                      "'min_tokens' is {}, more than the {} of 'max_tokens'", s.min_tokens,
                      s.max_tokens);
  }
  return {};
}

error out_of_range(std::string_view param, const real_range& range, double value) {
  return fail_param(errc::invalid_value, param, "'{}' must be {} {} and at most {}, not {}", param,
                    range.excludes_least ? "above" : "at least", range.least, range.most, value);
}

result<void> check_ranges(const generate& request, const request_limits& limits) {
  if (request.terms.choices < 1 || request.terms.choices > limits.choices_max) {
    return fail_param(errc::invalid_value, "n", "'n' must be between 1 and {}, not {}",
                      limits.choices_max, request.terms.choices);
  }
  if (auto ok = check_prompt(request.input, limits); !ok) {
    return ok;
  }
  if (auto ok = check_sampling(request.terms.sampling, limits); !ok) {
    return ok;
  }
  if (auto ok = check_stopping(request.terms.stop, limits,
                               /*may_be_none=*/request.terms.sampling.prompt_logprobs >= 0);
      !ok) {
    return ok;
  }
  if (auto ok = check_min_tokens(request); !ok) {
    return ok;
  }
  if (const auto& shape = request.terms.sampling.constraint) {
    if (auto rules = grammar::compile(*shape); !rules) {
      return error{rules.error().code, rules.error().message, constraint_param};
    }
  }
  return {};
}

result<void> check_against_model(const generate& request, const model_card& card) {
  const auto size = card.vocabulary_size;
  const auto is_bad = [size](token_id id) {
    return id < 0 || (size != 0 && static_cast<std::uint32_t>(id) >= size);
  };
  const auto refuse = [&](const char* param, token_id id) {
    return fail_param(errc::invalid_value, param,
                      "'{}' names token {}, but the model's ids go from 0 to {}", param, id,
                      std::int64_t{size} - 1);
  };
  if (const auto* ids = std::get_if<ids_prompt>(&request.input)) {
    if (auto it = std::find_if(ids->begin(), ids->end(), is_bad); it != ids->end()) {
      return refuse("prompt", *it);
    }
  }
  for (const auto& b : request.terms.sampling.biases) {
    if (is_bad(b.token)) {
      return refuse("logit_bias", b.token);
    }
  }
  for (const auto id : request.terms.stop.stop_ids) {
    if (is_bad(id)) {
      return refuse("stop_token_ids", id);
    }
  }
  if (std::holds_alternative<chat_prompt>(request.input) && !card.has_chat_template) {
    return fail_param(errc::template_failed, "messages", "{}: use /v1/completions",
                      card.chat_template_failure.empty()
                          ? fmt::format("the model '{}' has no chat template", card.name)
                          : fmt::format("the chat template of the model '{}' cannot be used: {}",
                                        card.name, card.chat_template_failure));
  }
  return {};
}

std::uint32_t prompt_tokens_within(const generate& request, std::uint32_t max_model_len) noexcept {
  if (request.prompt_tokens_max != prompt_tokens_of_context) {
    return request.prompt_tokens_max;
  }
  const auto answer =
      request.terms.max_tokens_given ? std::max(1U, request.terms.stop.max_tokens) : 1U;
  // If the answer alone is too long, the scheduler refuses it.
  return max_model_len == 0 ? 0 : max_model_len - std::min(answer, max_model_len - 1);
}

std::uint32_t tokens_estimate(const generate& request, std::uint32_t max_model_len) noexcept {
  std::uint64_t prompt_tokens = 0;
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    prompt_tokens = text->size();
  } else if (const auto* ids = std::get_if<ids_prompt>(&request.input)) {
    prompt_tokens = ids->size();
  } else {
    // Role marks of the known templates take up to 16 tokens a message.
    constexpr std::uint64_t marks_per_message = 16;
    for (const auto& m : std::get<chat_prompt>(request.input)) {
      prompt_tokens += m.content.size() + m.tool_calls.size() + m.name.size() + marks_per_message;
    }
    prompt_tokens += request.tools.size() + request.template_options.kwargs.size() +
                     request.template_options.documents.size();
  }
  if (request.prompt_tokens_max > 0) {
    prompt_tokens = std::min<std::uint64_t>(prompt_tokens, request.prompt_tokens_max);
  }
  const std::uint64_t limit = max_model_len == 0 ? UINT32_MAX : max_model_len;
  const bool is_bounded = request.terms.max_tokens_given || has_default_max_tokens(request);
  const std::uint64_t output_tokens = is_bounded ? request.terms.stop.max_tokens : limit;
  return static_cast<std::uint32_t>(std::min(prompt_tokens + output_tokens, limit));
}

} // namespace baton::gateway
