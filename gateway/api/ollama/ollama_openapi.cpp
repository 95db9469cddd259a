#include "gateway/api/ollama/ollama_openapi.hpp"

#include "gateway/api/ollama/ollama_options.hpp"
#include "gateway/request/openapi_schema.hpp"

#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered known_fields(const request_limits& l) {
  const ordered object = type_schema("object");
  const ordered text = type_schema("string");
  return {{"model", text},
          {"messages", list_schema({{"type", "object"},
                                    {"required", ordered::array({"role"})},
                                    {"properties",
                                     {{"role", {{"enum", {"system", "user", "assistant", "tool"}}}},
                                      {"content", text},
                                      {"tool_calls", list_schema(object, l.tools_max)},
                                      {"tool_name", text}}}},
                                   l.messages_max)},
          {"tools", list_schema(object, l.tools_max)},
          {"prompt", text},
          {"system", text},
          {"raw", type_schema("boolean")},
          {"images", list_schema(text, 0)},
          {"format", any_schema({{{"enum", {"", "json"}}}, object})},
          {"options", ollama_options_schema(l)},
          {"stream", type_schema("boolean")},
          {"think", any_schema({type_schema("boolean"), text})},
          {"truncate", type_schema("boolean")},
          {"keep_alive", any_schema({type_schema("number"), text})},
          {"logprobs", type_schema("boolean")},
          {"top_logprobs", integer_schema(0, l.logprobs_max)}};
}

ordered ollama_schema(ollama_route route, const gateway_config& config) {
  const auto known = known_fields(config.request);
  auto properties = ordered::object();
  for (const auto& name : fields_of_ollama(route, config.request)) {
    properties[name] = name == "model" ? known.at(name) : or_null(known.at(name));
  }
  return {{"type", "object"},
          {"required", ordered::array({"model"})},
          {"properties", std::move(properties)}};
}

ordered embed_schema(const char* name, ordered texts, const gateway_config& config) {
  return {{"type", "object"},
          {"required", {"model", name}},
          {"properties",
           {{"model", type_schema("string")},
            {name, std::move(texts)},
            {"truncate", or_null(type_schema("boolean"))},
            {"options", or_null(ollama_options_schema(config.request))},
            {"keep_alive",
             any_schema({type_schema("number"), type_schema("string"), type_schema("null")})}}}};
}

} // namespace

ordered ollama_chat_schema(const gateway_config& config) {
  return ollama_schema(ollama_route::chat, config);
}

ordered ollama_generate_schema(const gateway_config& config) {
  return ollama_schema(ollama_route::generate, config);
}

ordered ollama_embed_schema(const gateway_config& config) {
  const auto text = type_schema("string");
  return embed_schema("input", any_schema({text, list_schema(text, config.request.answers_max)}),
                      config);
}

ordered ollama_embeddings_schema(const gateway_config& config) {
  return embed_schema("prompt", type_schema("string"), config);
}

ordered ollama_named_schema(const gateway_config& /*config*/) {
  return {{"type", "object"},
          {"required", ordered::array({"model"})},
          {"properties", {{"model", type_schema("string")}}}};
}

ordered ollama_error_schema() {
  return {{"type", "object"},
          {"required", ordered::array({"error"})},
          {"properties", {{"error", type_schema("string")}}}};
}

} // namespace baton::gateway
