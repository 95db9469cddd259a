// One row per route: its path, who may call it, how it words errors, what handles it, and what
// /openapi.json says about it. An API is a folder below gateway/api with a table of such rows;
// routes/http_api.cpp lists the tables.
#pragma once

#include "gateway/request/api_call.hpp"
#include "gateway/request/http_call.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string_view>

namespace baton::gateway {

class gateway_state;
struct gateway_config;

// Media types that routes have beside json_media.
inline constexpr std::string_view event_media = "text/event-stream";
inline constexpr std::string_view bytes_media = "application/octet-stream";
inline constexpr std::string_view line_media = "application/x-ndjson";

enum class method_set : std::uint8_t { get, post, remove, socket };
// `page`: the files of the web page. They hold no secrets, and the page asks for the key. Without
// keys they are as `admin`, since the page reads the operator's routes.
enum class route_access : std::uint8_t { open, user, admin, page };
enum class body_media : std::uint8_t { json_only, json_and_bytes, any };

// For /openapi.json alone.
struct route_doc {
  std::string_view summary;
  nlohmann::ordered_json (*body)(const gateway_config&) = nullptr; // its schema; null: no body
  std::string_view media = json_media;                             // of the answer
  std::string_view or_media{};                                     // another one it may have
  bool may_be_empty = false;                                       // the body
};

struct route_row {
  // One that ends in '/' is the beginning of many, except "/"; "{id}" stands for one part.
  std::string_view path;
  method_set methods;
  route_access access;
  const api_family* family; // how errors are worded, also before the handler is called
  // Requires: http_api::admit let the call in, and it is not OPTIONS. `facts` outlive the call.
  api_call (*handler)(const http_call& call, gateway_state& facts) = nullptr;
  route_doc doc;
  body_media takes = body_media::json_only;
  std::string_view id_header{}; // of answers: the API's own name of X-Request-ID
  bool is_per_gateway = false;  // refused where several gateways share the address
  // In place of `handler`, where two APIs have the same path and method: the answer to a body of
  // this API, else nothing. Such a row is asked first. The other one decides everything before the
  // body, and takes all remaining bodies. Its summary continues the other one's.
  std::optional<api_call> (*claim)(const http_call& call, gateway_state& facts) = nullptr;
};

// Whether the rows are of two APIs that share a path.
constexpr bool is_shared(const route_row& one, const route_row& other) noexcept {
  return one.path == other.path && one.methods == other.methods;
}

// Makes the rows of one API that need a user's key: row(path, methods, handler, doc).
constexpr auto user_rows_of(const api_family* family) {
  return [family](std::string_view path, method_set methods, auto handler, route_doc doc) {
    return route_row{.path = path,
                     .methods = methods,
                     .access = route_access::user,
                     .family = family,
                     .handler = handler,
                     .doc = doc};
  };
}

} // namespace baton::gateway
