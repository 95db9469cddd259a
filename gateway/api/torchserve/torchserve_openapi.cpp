#include "gateway/api/torchserve/torchserve_openapi.hpp"

#include "gateway/request/openapi_schema.hpp"
#include "gateway/request/request_check.hpp"

#include <nlohmann/json.hpp>

#include <string_view>
#include <vector>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

struct operation_parts {
  std::vector<const char*> query = {};
  const char* body = nullptr; // name of its schema
  const char* media = "application/json";
  bool needs_store = false;
};
struct operation_row : operation_parts {
  listener_kind listener;
  const char* path;
  const char* method;
  const char* id; // TorchServe's operationId
  const char* summary;
};

operation_row row(listener_kind listener, const char* path, const char* method, const char* id,
                  const char* summary, operation_parts parts = {}) {
  return {std::move(parts), listener, path, method, id, summary};
}

constexpr auto inference = listener_kind::torchserve_inference;
constexpr auto management = listener_kind::torchserve_management;
constexpr auto metrics = listener_kind::torchserve_metrics;

const operation_row rows[] = {
    row(inference, "/ping", "get", "ping", "Whether a request would be served now"),
    row(inference, "/predictions/{model_name}", "post", "predictions",
        "The continuation of a text, in pieces", {.body = "Prediction", .media = "text/plain"}),
    row(inference, "/predictions/{model_name}/{model_version}", "post", "version_predictions",
        "The same of a version", {.body = "Prediction", .media = "text/plain"}),
    row(inference, "/predictions/{model_name}/{model_version}/v1/completions", "post",
        "completions", "The same in OpenAI's format", {.body = "Openai"}),
    row(inference, "/predictions/{model_name}/{model_version}/v1/chat/completions", "post",
        "chat_completions", "An answer to a conversation, in OpenAI's format", {.body = "Openai"}),
    row(inference, "/predictions/{model_name}/{model_version}/v1/models", "get", "openai_models",
        "The served models, in OpenAI's format"),
    row(inference, "/v1/models/{model_name}:predict", "post", "kserve_predictions",
        "Several predictions together", {.body = "Instances"}),
    row(inference, "/invocations", "post", "invocations",
        "A prediction of the model, or of one named",
        {.query = {"model_name"}, .body = "Prediction", .media = "text/plain"}),
    row(inference, "/models/{model_name}/invoke", "post", "invoke", "The same of the model named",
        {.body = "Prediction", .media = "text/plain"}),
    row(management, "/models", "get", "listModels", "The models",
        {.query = {"limit", "next_page_token"}}),
    row(management, "/models", "post", "registerModel", "Registers a model of the store",
        {.query = {"url", "model_name", "handler", "runtime", "batch_size", "max_batch_delay",
                   "initial_workers", "response_timeout", "startup_timeout", "synchronous"},
         .needs_store = true}),
    row(management, "/models/{model_name}", "delete", "unregisterModel",
        "Unregisters it after its open requests", {.needs_store = true}),
    row(management, "/models/{model_name}/{model_version}", "delete", "version_unregisterModel",
        "The same of a version", {.needs_store = true}),
    row(management, "/models/{model_name}", "get", "describeModel", "A model and its workers",
        {.query = {"customized"}}),
    row(management, "/models/{model_name}", "put", "setAutoScale",
        "Scales the workers; outside the store, 409 names the command for it",
        {.query = {"min_worker", "max_worker", "synchronous"}}),
    row(management, "/models/{model_name}/{model_version}", "get", "version_describeModel",
        "The same of a version, or of 'all'", {.query = {"customized"}}),
    row(management, "/models/{model_name}/{model_version}", "put", "version_setAutoScale",
        "The same of a version", {.query = {"min_worker", "max_worker", "synchronous"}}),
    row(management, "/models/{model_name}/{model_version}/set-default", "put", "setDefault",
        "The version served by default"),
    row(management, "/v1/models/{model_name}", "get", "kserve_ready",
        "Whether the model is served"),
    row(metrics, "/metrics", "get", "metrics", "Prometheus metrics",
        {.query = {"name[]"}, .media = "text/plain"}),
};

ordered range_schema_3_0(const real_range& range) {
  ordered out{{"type", "number"}, {"minimum", range.least}, {"maximum", range.most}};
  if (range.excludes_least) { // OpenAPI 3.0's form
    out["exclusiveMinimum"] = true;
  }
  return out;
}

// The best known fields; docs/apis/torchserve.md lists all.
ordered prediction_schema(const request_limits& l) {
  ordered fields{{"prompt", type_schema("string")},
                 {"max_tokens", integer_schema(1, l.max_tokens)},
                 {"max_new_tokens", integer_schema(1, l.max_tokens)},
                 {"temperature", range_schema_3_0(temperature_range)},
                 {"top_p", range_schema_3_0(top_p_range)},
                 {"top_k", integer_schema(-1, top_k_max)},
                 {"seed", type_schema("integer")},
                 {"stream", type_schema("boolean")},
                 {"streaming", type_schema("boolean")}};
  return {{"type", "object"}, {"required", {"prompt"}}, {"properties", std::move(fields)}};
}

ordered schemas(const request_limits& l) {
  const ordered reference{{"$ref", "#/components/schemas/Prediction"}};
  ordered instances{{"type", "array"},
                    {"minItems", 1},
                    {"maxItems", l.choices_max},
                    {"items", {{"oneOf", {type_schema("string"), reference}}}}};
  return {{"Prediction", prediction_schema(l)},
          {"Openai", {{"type", "object"}, {"description", "As at gateway.http"}}},
          {"Instances",
           {{"type", "object"},
            {"required", {"instances"}},
            {"properties", {{"instances", std::move(instances)}}}}},
          {"Error",
           {{"type", "object"},
            {"required", {"code", "type", "message"}},
            {"properties",
             {{"code", type_schema("integer")},
              {"type", type_schema("string")},
              {"message", type_schema("string")}}}}}};
}

ordered parameters_of(const operation_row& row) {
  auto all = ordered::array();
  for (const auto* name : {"model_name", "model_version"}) {
    if (std::string_view(row.path).find(name) != std::string_view::npos) {
      all.push_back(
          {{"in", "path"}, {"name", name}, {"required", true}, {"schema", type_schema("string")}});
    }
  }
  for (const auto* name : row.query) {
    all.push_back(
        {{"in", "query"}, {"name", name}, {"required", false}, {"schema", type_schema("string")}});
  }
  return all;
}

ordered operation_of(const operation_row& row) {
  ordered out{
      {"summary", row.summary}, {"operationId", row.id}, {"parameters", parameters_of(row)}};
  if (row.body) {
    const ordered schema{{"$ref", std::string("#/components/schemas/") + row.body}};
    auto content = media_content("application/json", schema);
    if (row.media != std::string_view("application/json")) {
      content.update(media_content("text/plain", type_schema("string")));
    }
    out["requestBody"] = {{"required", true}, {"content", std::move(content)}};
  }
  auto answer = media_content(row.media, ordered::object());
  if (row.body && row.media == std::string_view("text/plain")) {
    answer.update(media_content("application/json", ordered::object()));
  }
  out["responses"]["200"] = {{"description", "The answer"}, {"content", std::move(answer)}};
  out["responses"]["default"] = {
      {"description", "An error"},
      {"content", media_content("application/json", {{"$ref", "#/components/schemas/Error"}})}};
  return out;
}

} // namespace

std::string torchserve_openapi(listener_kind listener, const gateway_config& config,
                               bool has_store) {
  const auto own = row(listener, "/", "options", "apiDescription", "This document");
  auto paths = ordered::object();
  paths[own.path][own.method] = operation_of(own);
  for (const auto& row : rows) {
    if (row.listener == listener && (has_store || !row.needs_store)) {
      paths[row.path][row.method] = operation_of(row);
    }
  }
  const ordered out{{"openapi", "3.0.1"},
                    {"info", {{"title", "TorchServe APIs of Baton"}, {"version", config.build}}},
                    {"paths", std::move(paths)},
                    {"components", {{"schemas", schemas(config.request)}}}};
  return out.dump(2, ' ', false, ordered::error_handler_t::replace);
}

} // namespace baton::gateway
