// Building blocks of the JSON schemas in the OpenAPI documents. Pure.
#pragma once

#include "gateway/request/request_check.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace baton::gateway {

inline nlohmann::ordered_json type_schema(const char* type) {
  return {{"type", type}};
}

inline nlohmann::ordered_json integer_schema(std::int64_t least, std::int64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

inline nlohmann::ordered_json list_schema(nlohmann::ordered_json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}
inline nlohmann::ordered_json list_schema(nlohmann::ordered_json items, std::size_t most) {
  auto list = list_schema(std::move(items));
  list["maxItems"] = most;
  return list;
}

inline nlohmann::ordered_json any_schema(std::initializer_list<nlohmann::ordered_json> all) {
  auto any = nlohmann::ordered_json::array();
  for (const auto& one : all) {
    any.push_back(one);
  }
  return {{"anyOf", std::move(any)}};
}

inline nlohmann::ordered_json range_schema(const real_range& range) {
  return {{"type", "number"},
          {range.excludes_least ? "exclusiveMinimum" : "minimum", range.least},
          {"maximum", range.most}};
}

// null is the same as leaving it out.
inline nlohmann::ordered_json or_null(nlohmann::ordered_json schema) {
  return any_schema({std::move(schema), type_schema("null")});
}

// The `content` of a request or a response.
inline nlohmann::ordered_json media_content(std::string_view media, nlohmann::ordered_json schema) {
  return {{std::string(media), {{"schema", std::move(schema)}}}};
}

} // namespace baton::gateway
