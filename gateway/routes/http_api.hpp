// The table of all routes, and the checks that precede each handler: method, key, media type, pages
// of other sites. Knows no socket. It reads the gateway's state.
//
// Every route needs a key, except those of health, since load balancers and supervisors have none,
// and the files of the web page, which asks for one. The operator's routes need an admin's key, or
// come over the listener of their own (gateway.admin), which only this machine reaches.
#pragma once

#include "gateway/api/torchserve/torchserve_target.hpp"
#include "gateway/request/route.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/state/refusal.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton::gateway {

// The style of errors of a listener, where no route decides.
const api_family& family_of(listener_kind listener) noexcept;

// Where a call leads.
struct found_route {
  // The row of the path and the method, else the first row of the path; null: no such path,
  // or a TorchServe address.
  const route_row* row = nullptr;
  std::string_view label = "other";             // of the path in /metrics; "other" if there is none
  std::optional<torchserve_found> torchserve{}; // at a TorchServe address, which has no rows
};

class http_api {
public:
  explicit http_api(std::shared_ptr<gateway_state> facts);

  // All routes. A path may have several rows, with different methods.
  static std::span<const route_row> routes();

  using access_result = http_admission;
  // Looks the route of a call up. The functions that take the result look nothing up.
  static found_route find(const http_call& call);
  // Refusals that need no body: unknown path, method, key, foreign origin, media type.
  access_result admit(const http_call& call, const found_route& route) const;
  access_result admit(const http_call& call) const { return admit(call, find(call)); }
  // Whether the gateway reads the trace that a call is part of.
  bool reads_traces() const noexcept { return facts_->tracer() != nullptr; }
  // Calls the handler of the route. Requires: admit refused nothing.
  api_call plan(const http_call& call, const found_route& route) const;
  api_call plan(const http_call& call) const { return plan(call, find(call)); }
  // For a call that perhaps has only its first line yet. It has the style of its path's API,
  // and HTTP's own status.
  static http_reply refuse_early(const http_call& call, const error& e);
  static http_reply refuse_early(const http_call& call, const rejected& no);
  // Whether the route needs no key: health, for load balancers.
  static bool is_open(const http_call& call, const found_route& route);

private:
  std::optional<http_reply> refuse(const http_call& call, const route_row* row) const;
  result<principal> identify(const http_call& call, const route_row* row) const;

  std::shared_ptr<gateway_state> facts_;
};

std::span<const route_row> gateway_routes() noexcept; // those that belong to no API
// The rows as an OpenAPI 3.1 document. The fields of bodies are those that the readers ask for, so
// it shows nothing that the server does not take.
std::string openapi_body(const gateway_config& config);

} // namespace baton::gateway
