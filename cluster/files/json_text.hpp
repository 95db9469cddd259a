// JSON that is told or noted: what a file or a process said is in it as it was said, and where that
// is no UTF-8 there is U+FFFD in its place.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace baton::cluster {

template <class Json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace baton::cluster
