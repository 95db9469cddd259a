#include "gateway/routes/openapi.hpp"

#include "gateway/api/kserve/kserve_openapi.hpp"
#include "gateway/api/openai/embedding_request.hpp"
#include "gateway/api/openai/openai_fields.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/base/openapi_schema.hpp"
#include "gateway/routes/http_api.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::string_view event_media = "text/event-stream";
constexpr std::string_view bytes_media = "application/octet-stream";
constexpr std::string_view line_media = "application/x-ndjson";

// What the routes' table does not say. A route without a row here has its path as its summary.
enum class body_kind : std::uint8_t {
  none,
  chat,
  completions,
  tokenize,
  detokenize,
  embeddings,
  tgi,
  generate, // TGI's or vLLM's
  response,
  infer,
  kserve_generate,
  index,
  load,
  any
};
struct route_words {
  std::string_view path; // with a body: of POST
  std::string_view summary;
  body_kind body = body_kind::none;
  std::string_view media = json_media;  // of its answer
  method_set methods = method_set::get; // without a body
};
constexpr std::array route_texts{
    route_words{"/", "The page: chat beside a picture of the cluster", {}, "text/html"},
    route_words{"/page/", "A file of the page", {}, "text/javascript"},
    route_words{"/health", "Whether a request that came now would be served"},
    route_words{"/ping", "The same in TorchServe's words"},
    route_words{"/version", "The build"},
    route_words{"/load", "Open requests, and what the schedulers have to do"},
    route_words{"/cluster", "What the page draws: models, processes, load"},
    route_words{"/metrics", "Prometheus metrics", {}, "text/plain"},
    route_words{"/openapi.json", "This document"},
    route_words{"/v1/models", "The models that are served"},
    route_words{"/v1/models/", "One of them, by its name or an alias"},
    route_words{"/v1/stream", "Requests over a WebSocket"},
    route_words{"/v1/chat/completions", "An answer to a conversation", body_kind::chat},
    route_words{"/v1/completions", "What a text goes on with", body_kind::completions},
    route_words{"/v1/embeddings", "Texts as vectors of length 1", body_kind::embeddings},
    route_words{"/v1/responses", "An answer to a conversation that may be stored and gone on with",
                body_kind::response},
    route_words{"/v1/responses/{id}", "A stored response, or its events"},
    route_words{"/v1/responses/{id}",
                "Forgets a response, and ends it if it still runs",
                {},
                json_media,
                method_set::remove},
    route_words{"/v1/responses/{id}/cancel",
                "Ends a response in the background",
                {},
                json_media,
                method_set::post},
    route_words{"/tokenize", "A text or a conversation as token ids", body_kind::tokenize},
    route_words{"/detokenize", "Token ids as a text", body_kind::detokenize},
    route_words{"/", "What a text goes on with, in TGI's words: a list of one, or events",
                body_kind::tgi},
    route_words{"/generate",
                "The same in one piece; of vLLM's body a list, or a line for each piece",
                body_kind::generate},
    route_words{"/generate_stream", "The same as events", body_kind::tgi, event_media},
    route_words{"/info", "The model and the server's limits, in TGI's words"},
    route_words{"/v2", "The server, in the words of KServe v2"},
    route_words{"/v2/health/live", "Whether the server answers"},
    route_words{"/v2/health/ready", "As /health"},
    route_words{"/v2/models/stats", "Statistics of all models"},
    route_words{"/v2/models/{model}", "The model's tensors"},
    route_words{"/v2/models/{model}/ready", "Whether the model is served"},
    route_words{"/v2/models/{model}/config", "The model as Triton's config.pbtxt has it"},
    route_words{"/v2/models/{model}/stats", "The model's statistics"},
    route_words{"/v2/models/{model}/infer", "What a text goes on with, as tensors",
                body_kind::infer},
    route_words{"/v2/models/{model}/generate", "The same as members", body_kind::kserve_generate},
    route_words{"/v2/models/{model}/generate_stream", "The same as events",
                body_kind::kserve_generate, event_media},
    route_words{"/v2/repository/index", "The models", body_kind::index},
    route_words{"/v2/repository/models/{model}/load", "Whether the model is loaded",
                body_kind::load},
    route_words{"/v2/repository/models/{model}/unload", "Refused: nodes.toml says what is served",
                body_kind::load},
    route_words{"/v1/workers/", "What a worker model answers to a body, as it comes",
                body_kind::any, "*/*"},
};

// A model has one version: a path that says so is the same.
std::string without_version(std::string_view path) {
  std::string out(path);
  constexpr std::string_view version = "/versions/{version}";
  if (const auto at = out.find(version); at != out.npos) {
    out.erase(at, version.size());
  }
  return out;
}

ordered range_schema(const real_range& range) {
  return {{"type", "number"},
          {range.excludes_least ? "exclusiveMinimum" : "minimum", range.least},
          {"maximum", range.most}};
}

// What the fields of generation take, by name. Each may be null as well, which is leaving it out.
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
          {"stop", any_schema({type_schema("string"), list_schema(type_schema("string"))})},
          {"stop_token_ids", ids},
          {"top_logprobs", integer_schema(0, l.logprobs_max)},
          {"num_speculative_tokens", integer_schema(0, speculative_tokens_max)}};
}

ordered other_schemas(const request_limits& l) {
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

// All names that the reader of this body asks for; of an empty one it lacks what is needed.
std::set<std::string, std::less<>> fields_of(body_kind kind, const request_limits& limits) {
  auto nothing = json::object();
  if (kind == body_kind::tokenize) { // what a conversation may have besides
    nothing["messages"] = json::array();
  }
  field_reader fields(nothing);
  if (kind == body_kind::chat || kind == body_kind::completions) {
    const auto api = kind == body_kind::chat ? openai_api::chat : openai_api::completions;
    static_cast<void>(read_generation(fields, "{}", api, limits));
  } else if (kind == body_kind::tokenize) {
    static_cast<void>(read_tokenize(fields, "{}", limits));
  } else if (kind == body_kind::detokenize) {
    static_cast<void>(read_detokenize(fields, limits));
  } else if (kind == body_kind::embeddings) {
    static_cast<void>(read_embeddings(fields, limits));
  }
  return fields.asked();
}

ordered or_null(ordered schema) {
  return any_schema({std::move(schema), type_schema("null")});
}

// Where TGI's parameters are not OpenAI's.
ordered tgi_schemas(const request_limits& l) {
  return {{"temperature", range_schema({0, temperature_range.most, true})},
          {"top_k", integer_schema(1, top_k_max)},
          {"frequency_penalty", range_schema(penalty_range)},
          {"seed", integer_schema(0, std::numeric_limits<std::int64_t>::max())},
          {"do_sample", type_schema("boolean")},
          {"watermark", type_schema("boolean")},
          {"max_new_tokens", integer_schema(1, l.max_tokens)},
          {"details", type_schema("boolean")},
          {"decoder_input_details", type_schema("boolean")},
          {"return_full_text", type_schema("boolean")},
          {"top_n_tokens", integer_schema(0, l.logprobs_max)},
          {"truncate", integer_schema(1, static_cast<std::int64_t>(l.prompt_ids_max))},
          {"grammar", {{"type", "object"}, {"required", {"type", "value"}}}}};
}

ordered tgi_inputs() {
  return {{"type", "string"}, {"minLength", 1}};
}

ordered tgi_body_schema(const gateway_config& config) {
  auto known = sampling_schemas(config.request);
  known.update(tgi_schemas(config.request));
  const auto fields = tgi_fields_of(config);
  auto parameters = ordered::object(), properties = ordered::object();
  for (const auto& name : fields.parameters) {
    parameters[name] = known.contains(name) ? or_null(known[name]) : ordered::object();
  }
  for (const auto& name : fields.body) {
    properties[name] =
        or_null(name == "model" ? type_schema("string") : type_schema("boolean")); // `stream`
  }
  properties["inputs"] = tgi_inputs();
  properties["parameters"] = or_null({{"type", "object"}, {"properties", std::move(parameters)}});
  return {{"type", "object"}, {"required", {"inputs"}}, {"properties", std::move(properties)}};
}

ordered tgi_tokenize_schema() {
  return {{"type", "object"},
          {"required", {"inputs"}},
          {"properties", {{"inputs", tgi_inputs()}, {"model", or_null(type_schema("string"))}}}};
}

ordered body_schema(body_kind kind, const request_limits& limits) {
  auto known = sampling_schemas(limits);
  known.update(other_schemas(limits));
  known["logprobs"] =
      kind == body_kind::chat ? type_schema("boolean") : integer_schema(0, limits.logprobs_max);
  auto properties = ordered::object();
  for (const auto& name : fields_of(kind, limits)) {
    const auto row = known.find(name);
    properties[name] = row == known.end() ? ordered::object() : or_null(*row);
  }
  ordered out{{"type", "object"}, {"properties", std::move(properties)}};
  const char* needed = kind == body_kind::chat          ? "messages"
                       : kind == body_kind::completions ? "prompt"
                       : kind == body_kind::detokenize  ? "tokens"
                       : kind == body_kind::embeddings  ? "input"
                                                        : nullptr;
  if (needed) {
    out["required"] = ordered::array({needed});
    out["properties"][needed] = known[needed];
  }
  return out;
}

// Completions' but for what has no place in the answer.
ordered vllm_body_schema(const request_limits& limits) {
  auto out = body_schema(body_kind::completions, limits);
  for (const auto* name : {"echo", "logprobs", "best_of", "stream_options", "resumable"}) {
    out["properties"].erase(name);
  }
  out["properties"]["prompt"] = type_schema("string");
  return out;
}

ordered response_body_schema(const gateway_config& config) {
  const auto& l = config.request;
  auto known = sampling_schemas(l);
  known.update(other_schemas(l));
  auto items = list_schema(type_schema("object"));
  items["minItems"] = 1;
  items["maxItems"] = l.messages_max;
  known.update({{"max_output_tokens", integer_schema(1, l.max_tokens)},
                {"instructions", type_schema("string")},
                {"previous_response_id", type_schema("string")},
                {"metadata", {{"type", "object"}, {"additionalProperties", type_schema("string")}}},
                {"text", type_schema("object")},
                {"store", type_schema("boolean")},
                {"background", type_schema("boolean")}});
  known["tools"]["items"] = {{"type", "object"}, {"required", {"type", "name"}}};
  auto properties = ordered::object();
  for (const auto& name : response_fields_of(config)) {
    properties[name] = known.contains(name) ? or_null(known[name]) : ordered::object();
  }
  properties["input"] = any_schema({type_schema("string"), std::move(items)});
  return {{"type", "object"}, {"required", {"input"}}, {"properties", std::move(properties)}};
}

ordered body_schema_of(body_kind kind, const gateway_config& config) {
  switch (kind) {
  case body_kind::any:
    return ordered::object();
  case body_kind::none:
    return type_schema("object");
  case body_kind::tgi:
    return tgi_body_schema(config);
  case body_kind::generate:
    return any_schema({tgi_body_schema(config), vllm_body_schema(config.request)});
  case body_kind::response:
    return response_body_schema(config);
  case body_kind::tokenize:
    return any_schema({body_schema(kind, config.request), tgi_tokenize_schema()});
  case body_kind::infer:
    return kserve_infer_schema(sampling_schemas(config.request), config);
  case body_kind::kserve_generate:
    return kserve_generate_schema(sampling_schemas(config.request), config);
  case body_kind::index:
    return kserve_index_schema();
  case body_kind::load:
    return kserve_load_schema();
  default:
    return body_schema(kind, config.request);
  }
}

// A WebSocket begins as a GET.
std::string openapi_method(method_set methods) {
  return methods == method_set::post ? "post" : methods == method_set::remove ? "delete" : "get";
}

std::string openapi_path(const route_row& route) {
  std::string path(route.path);
  return path.size() > 1 && path.ends_with('/') ? path + "{id}" : path;
}

// Of the parts of a path that stand for anything.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (auto at = path.find('{'); at != path.npos; at = path.find('{', at + 1)) {
    names.push_back(path.substr(at + 1, path.find('}', at) - at - 1));
  }
  return names;
}

const char* error_name(api_family speaks) noexcept {
  switch (speaks) {
  case api_family::tgi:
    return "TgiError";
  case api_family::kserve:
    return "KserveError";
  case api_family::torchserve: // at doors of its own, with a document of their own
  case api_family::openai:
    break;
  }
  return "Error";
}

ordered error_of(api_family speaks) {
  return {{"$ref", std::string("#/components/schemas/") + error_name(speaks)}};
}

// Of a route whose body says in whose words it is.
ordered error_of(const route_row& route, body_kind body) {
  const bool has_two = body == body_kind::generate || body == body_kind::tokenize;
  return has_two ? any_schema({error_of(api_family::openai), error_of(api_family::tgi)})
                 : error_of(route.speaks);
}

ordered operation_of(const route_row& route, const gateway_config& config) {
  const auto path = without_version(route.path);
  const auto row = std::find_if(route_texts.begin(), route_texts.end(), [&](const route_words& w) {
    const auto methods = w.body != body_kind::none ? method_set::post : w.methods;
    return w.path == path && openapi_method(methods) == openapi_method(route.methods);
  });
  const auto told = row == route_texts.end() ? route_words{route.path, route.path} : *row;
  ordered out{{"summary", told.summary}};
  if (route.access == route_access::open || route.access == route_access::page) {
    out["security"] = ordered::array();
  }
  for (const auto& name : names_in(openapi_path(route))) {
    out["parameters"].push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", type_schema("string")}});
  }
  if (told.body != body_kind::none) {
    const bool may_be_empty = told.body == body_kind::index || told.body == body_kind::load;
    const auto media = told.body == body_kind::any ? "*/*" : json_media;
    out["requestBody"] = {{"required", !may_be_empty},
                          {"content", media_content(media, body_schema_of(told.body, config))}};
  }
  if (told.body == body_kind::infer) { // JSON, and the tensors' bytes behind it
    out["requestBody"]["content"].update(media_content(bytes_media, ordered::object()));
  }
  ordered answer{{"description", "The answer"},
                 {"content", media_content(told.media, ordered::object())}};
  const bool may_stream = told.body == body_kind::chat || told.body == body_kind::completions ||
                          told.body == body_kind::response ||
                          (told.body == body_kind::tgi && route.path == "/") ||
                          (route.path == "/v1/responses/{id}" && route.methods == method_set::get);
  if (may_stream) {
    answer["content"].update(media_content(event_media, ordered::object()));
  }
  if (told.body == body_kind::generate) {
    answer["content"].update(media_content(line_media, ordered::object()));
  }
  if (told.body == body_kind::infer) {
    answer["content"].update(media_content(bytes_media, ordered::object()));
  }
  if (route.methods == method_set::socket) {
    out["responses"]["101"] = {{"description", "The protocol is WebSocket from here on"}};
  } else {
    out["responses"]["200"] = std::move(answer);
  }
  out["responses"]["default"] = {
      {"description", "A refusal, or what went wrong"},
      {"content", media_content(json_media, error_of(route, told.body))}};
  return out;
}

ordered error_schema() {
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

ordered tgi_error_schema() {
  return {
      {"type", "object"},
      {"required", {"error"}},
      {"properties", {{"error", type_schema("string")}, {"error_type", type_schema("string")}}}};
}

} // namespace

std::string openapi_body(const gateway_config& config) {
  auto paths = ordered::object();
  for (const auto& route : http_api::routes()) {
    paths[openapi_path(route)][openapi_method(route.methods)] = operation_of(route, config);
  }
  ordered out{{"openapi", "3.1.0"},
              {"info", {{"title", "Baton"}, {"version", config.build}}},
              {"paths", std::move(paths)},
              {"components",
               {{"schemas",
                 {{"Error", error_schema()},
                  {"TgiError", tgi_error_schema()},
                  {"KserveError", kserve_error_schema()}}},
                {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  if (config.keys) {
    out["security"] = {{{"key", ordered::array()}}};
  }
  return out.dump(-1, ' ', false, ordered::error_handler_t::replace);
}

} // namespace baton::gateway
