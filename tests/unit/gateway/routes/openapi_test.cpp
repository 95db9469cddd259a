// The OpenAPI document. Goal: it has every route of the table, and the type of every request field.
#include "gateway/request/json_reader.hpp"
#include "gateway/routes/http_api.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("the document has every route, and a type for every field of a body") {
  const auto parsed = json::parse(openapi_body(gateway_config{}));
  CHECK(parsed["openapi"] == "3.1.0");
  std::set<std::string> paths;
  for (const auto& route : http_api::routes()) {
    std::string path(route.path);
    path += path.size() > 1 && path.ends_with('/') ? "{id}" : "";
    CAPTURE(path);
    paths.insert(path);
    REQUIRE(parsed["paths"].contains(path));
    const auto* method = route.methods == method_set::post     ? "post"
                         : route.methods == method_set::remove ? "delete"
                                                               : "get";
    REQUIRE(parsed["paths"][path].contains(method));
    const bool has_body = route.methods == method_set::post && !path.ends_with("/cancel");
    CHECK(parsed["paths"][path][method].contains("requestBody") == has_body);
  }
  CHECK(parsed["paths"].size() == paths.size());
  std::size_t fields = 0;
  const auto count_fields = [&fields](const json& schema) {
    for (const auto& [name, type] : schema["properties"].items()) {
      CAPTURE(name);
      CHECK_FALSE(type.empty());
      ++fields;
    }
  };
  for (const auto* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/tokenize",
        "/detokenize", "/generate", "/", "/v1/messages", "/v1/messages/count_tokens", "/api/chat",
        "/api/generate", "/api/embed", "/api/embeddings", "/v2/models/{model}/infer",
        "/v2/models/{model}/versions/{version}/generate"}) {
    CAPTURE(path);
    const auto& schema =
        parsed["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    for (const auto& one : schema.contains("anyOf") ? schema["anyOf"] : json::array({schema})) {
      count_fields(one);
      if (one["properties"].contains("parameters"))
        count_fields(one["properties"]["parameters"]["anyOf"][0]);
    }
  }
  CHECK(fields > 110);
}

TEST_CASE("a server with keys declares that it needs one") {
  CHECK_FALSE(json::parse(openapi_body(gateway_config{})).contains("security"));
  gateway_config guarded;
  guarded.keys.emplace();
  const auto parsed = json::parse(openapi_body(guarded));
  CHECK(parsed["security"] == json::parse(R"([{"key":[]}])"));
  CHECK(parsed["paths"]["/health"]["get"]["security"].empty());
  CHECK_FALSE(parsed["paths"]["/v1/models"]["get"].contains("security"));
}
