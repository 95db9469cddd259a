// JSON from and for files and processes.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace baton::cluster {

// Serialized; invalid UTF-8 becomes U+FFFD.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A member that is text; empty if `of` is no object, or has no such text.
inline std::string text_member(const nlohmann::json& of, const char* name) {
  const auto found = of.is_object() ? of.find(name) : of.end();
  return found != of.end() && found->is_string() ? found->get<std::string>() : std::string();
}

} // namespace baton::cluster
