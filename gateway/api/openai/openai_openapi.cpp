#include "gateway/api/openai/openai_openapi.hpp"

#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// `read` is the reader of a body. It asks an empty body for every field, and fails. `needed`: the
// required field; null: none.
template <class Read>
ordered schema_of(const request_limits& limits, const char* needed, Read read, bool is_chat = false,
                  const json& body = json::object()) {
  field_reader fields(body);
  static_cast<void>(read(fields));
  auto known = sampling_schemas(limits);
  known.update(body_schemas(limits));
  known["logprobs"] = is_chat ? type_schema("boolean") : integer_schema(0, limits.logprobs_max);
  auto properties = ordered::object();
  for (const auto& name : fields.asked()) {
    const auto row = known.find(name);
    properties[name] = row == known.end() ? ordered::object() : or_null(*row);
  }
  ordered out{{"type", "object"}, {"properties", std::move(properties)}};
  if (needed) {
    out["required"] = ordered::array({needed});
    out["properties"][needed] = known[needed];
  }
  return out;
}

ordered generation_schema(openai_api api, const request_limits& limits) {
  const bool is_chat = api == openai_api::chat;
  return schema_of(
      limits, is_chat ? "messages" : "prompt",
      [&](field_reader& fields) { return read_generation(fields, "{}", api, limits); }, is_chat);
}

} // namespace

ordered body_schemas(const request_limits& l) {
  const ordered ids = list_schema(integer_schema(0, INT32_MAX));
  const ordered anything =
      any_schema({type_schema("object"), type_schema("string"), type_schema("boolean")});
  const ordered message{{"type", "object"}, {"required", {"role"}}};
  auto tools = list_schema({{"type", "object"}, {"required", {"type", "function"}}});
  tools["maxItems"] = l.tools_max;
  auto messages = list_schema(message);
  messages["minItems"] = 1;
  messages["maxItems"] = l.messages_max;
  return {
      {"model", type_schema("string")},
      {"messages", messages},
      {"prompt", any_schema({type_schema("string"), ids, list_schema(type_schema("string")),
                             list_schema(ids)})},
      {"input", any_schema({type_schema("string"), ids, list_schema(type_schema("string")),
                            list_schema(ids)})},
      {"encoding_format", {{"enum", {"float", "base64"}}}},
      {"tokens", ids},
      {"tools", tools},
      {"tool_choice",
       any_schema({{{"enum", {"none", "auto", "required"}}}, type_schema("object")})},
      {"parallel_tool_calls", type_schema("boolean")},
      {"stream", type_schema("boolean")},
      {"stream_options", type_schema("object")},
      {"response_format", type_schema("object")},
      {"structured_outputs", type_schema("object")},
      {"guided_json", anything},
      {"guided_regex", type_schema("string")},
      {"guided_choice", list_schema(type_schema("string"))},
      {"guided_grammar", type_schema("string")},
      {"add_generation_prompt", type_schema("boolean")},
      {"add_special_tokens", type_schema("boolean")},
      {"continue_final_message", type_schema("boolean")},
      {"chat_template_kwargs", type_schema("object")},
      {"documents", list_schema(type_schema("object"))},
      {"reasoning_effort", {{"enum", {"none", "minimal", "low", "medium", "high", "xhigh"}}}},
      {"include_reasoning", type_schema("boolean")},
      {"thinking_token_budget", integer_schema(-1, INT32_MAX)},
      {"return_token_strs", type_schema("boolean")},
      {"resumable", type_schema("boolean")},
      {"truncate_prompt_tokens", integer_schema(-1, static_cast<std::int64_t>(l.prompt_ids_max))},
      {"priority", integer_schema(INT32_MIN, INT32_MAX)},
      {"cache_salt", type_schema("string")},
      {"request_id", type_schema("string")},
      {"user", type_schema("string")},
      {"safety_identifier", type_schema("string")},
      {"prompt_cache_key", type_schema("string")},
      {"session_id", type_schema("string")}};
}

ordered sampling_schemas(const request_limits& l) {
  const ordered ids = list_schema(integer_schema(0, INT32_MAX));
  return {{"temperature", range_schema(temperature_range)},
          {"top_p", range_schema(top_p_range)},
          {"typical_p", range_schema(typical_p_range)},
          {"top_k", integer_schema(-1, top_k_max)},
          {"min_p", range_schema(min_p_range)},
          {"repetition_penalty", range_schema(repetition_penalty_range)},
          {"presence_penalty", range_schema(penalty_range)},
          {"frequency_penalty", range_schema(penalty_range)},
          {"logit_bias", {{"type", "object"}, {"additionalProperties", range_schema(bias_range)}}},
          {"seed", type_schema("integer")},
          {"n", integer_schema(1, l.choices_max)},
          {"best_of", integer_schema(1, l.choices_max)},
          {"echo", type_schema("boolean")},
          {"max_tokens", integer_schema(-1, l.max_tokens)},
          {"max_completion_tokens", integer_schema(-1, l.max_tokens)},
          {"min_tokens", integer_schema(0, l.max_tokens)},
          {"ignore_eos", type_schema("boolean")},
          {"include_stop_str_in_output", type_schema("boolean")},
          {"return_token_ids", type_schema("boolean")},
          {"return_tokens_as_token_ids", type_schema("boolean")},
          {"structural_tag", any_schema({type_schema("string"), type_schema("object")})},
          {"stop", any_schema({type_schema("string"), list_schema(type_schema("string"))})},
          {"stop_token_ids", ids},
          {"top_logprobs", integer_schema(0, l.logprobs_max)},
          {"num_speculative_tokens", integer_schema(0, speculative_tokens_max)}};
}

ordered chat_schema(const gateway_config& config) {
  return generation_schema(openai_api::chat, config.request);
}

ordered completions_schema(const gateway_config& config) {
  return generation_schema(openai_api::completions, config.request);
}

ordered embeddings_schema(const gateway_config& config) {
  return schema_of(config.request, "input",
                   [&](field_reader& fields) { return read_embeddings(fields, config.request); });
}

ordered tokenize_schema(const gateway_config& config) {
  auto chat = json::object();
  chat["messages"] = json::array(); // so that it is asked for a conversation's fields as well
  return schema_of(
      config.request, nullptr,
      [&](field_reader& fields) { return read_tokenize(fields, "{}", config.request); },
      /*is_chat=*/false, chat);
}

ordered detokenize_schema(const gateway_config& config) {
  return schema_of(config.request, "tokens",
                   [&](field_reader& fields) { return read_detokenize(fields, config.request); });
}

ordered openai_error_schema() {
  const ordered text_or_null{{"type", {"string", "null"}}};
  const ordered inner{{"type", "object"},
                      {"required", {"message", "type", "param", "code"}},
                      {"properties",
                       {{"message", type_schema("string")},
                        {"type", type_schema("string")},
                        {"param", text_or_null},
                        {"code", type_schema("string")},
                        {"retry_after", type_schema("number")},
                        {"queue_position", type_schema("integer")}}}};
  return {{"type", "object"}, {"required", {"error"}}, {"properties", {{"error", inner}}}};
}

} // namespace baton::gateway
