#include "gateway/api/openai/request/openai_prompts.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

void refuse_type(field_reader& fields, std::string_view name, const json& value) {
  fields.refuse_type(name, "a string, an array of token ids or an array of these", value);
}

// False: the reader holds the error.
bool read_one(field_reader& fields, std::string_view name, const json& value,
              const request_limits& limits, std::vector<prompt>& out) {
  if (value.is_string()) {
    out.emplace_back(value.get<std::string>());
  } else if (value.is_array()) {
    out.emplace_back(read_ids(fields, name, value, limits.prompt_ids_max));
  } else {
    refuse_type(fields, name, value);
  }
  return !fields.has_failed();
}

// A name or a stream position applies to one stream only, not to several.
void refuse_names(field_reader& fields, const generate& request) {
  const char* field = !request.request_id.empty() ? "request_id"
                      : request.is_resumable      ? "resumable"
                                                  : nullptr;
  if (field) {
    fields.refuse(errc::unsupported_parameter, field,
                  fmt::format("'{}' with several prompts is not supported: send one request for "
                              "each",
                              field));
  }
}

// With `logprobs` the prompt's tokens have them too; the text of ids comes from those tokens.
void read_echo(field_reader& fields, const request_limits& limits, const std::vector<prompt>& all,
               openai_generate& out) {
  auto& sampling = out.request.terms.sampling;
  const bool echoes = fields.boolean("echo", false);
  if (out.request.terms.stop.max_tokens == 0 && !(echoes && out.shape.has_logprobs)) {
    const char* name =
        fields.find("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
    fields.refuse(errc::invalid_value, name,
                  fmt::format("'{}' must be between 1 and {}, not 0, which is for 'echo' with "
                              "'logprobs'",
                              name, limits.max_tokens));
  }
  if (!echoes) {
    return;
  }
  sampling.prompt_logprobs = sampling.logprobs;
  for (const auto& one : all) {
    const auto* text = std::get_if<std::string>(&one);
    out.shape.echo.push_back(text ? *text : std::string());
    if (!text) {
      sampling.prompt_logprobs = std::max(sampling.prompt_logprobs, 0);
    }
  }
}

} // namespace

std::vector<prompt> read_prompts(field_reader& fields, std::string_view name,
                                 const request_limits& limits) {
  std::vector<prompt> all;
  const auto* value = fields.require(name);
  const bool is_list = value && value->is_array() && !value->empty() &&
                       (value->front().is_string() || value->front().is_array());
  if (is_list && value->size() > limits.answers_max) {
    fields.refuse(errc::invalid_value, name,
                  fmt::format("'{}' has {} {}s of at most {}", name, value->size(), name,
                              limits.answers_max));
  } else if (is_list) {
    for (const auto& one : *value) {
      if (one.type() != value->front().type()) {
        refuse_type(fields, name, *value);
      }
      if (!read_one(fields, name, one, limits, all)) {
        break;
      }
      const auto* ids = std::get_if<ids_prompt>(&all.back());
      if (value->size() > 1 && ids && ids->empty()) { // check_ranges reports a single one
        fields.refuse(errc::invalid_value, name, fmt::format("one of '{}' has no ids", name));
      }
    }
  } else if (value) {
    read_one(fields, name, *value, limits, all);
  }
  if (all.empty()) {
    all.emplace_back();
  }
  return all;
}

void read_several(field_reader& fields, const request_limits& limits, std::vector<prompt> all,
                  openai_generate& out) {
  read_echo(fields, limits, all, out);
  if (all.size() == 1) {
    return;
  }
  refuse_names(fields, out.request);
  if (all.size() * out.request.terms.choices > limits.answers_max) {
    fields.refuse(errc::invalid_value, "prompt",
                  fmt::format("{} prompts with {} answers each are more than the {} of one request",
                              all.size(), out.request.terms.choices, limits.answers_max));
  }
  if (fields.has_failed()) {
    return;
  }
  out.shape.prompts = static_cast<std::uint32_t>(all.size());
  for (std::size_t i = 1; i < all.size(); ++i) {
    auto next = out.request;
    next.input = std::move(all[i]);
    next.terms.sampling.seed = read_seed(fields, {});
    out.further.push_back(std::move(next));
  }
}

} // namespace baton::gateway
