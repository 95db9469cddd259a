// Serializes JSON that may hold bytes from files or processes: invalid UTF-8 becomes U+FFFD.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace baton::cluster {

template <class Json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace baton::cluster
