#include "gateway/routes/http_api.hpp"

#include "gateway/api/anthropic/anthropic_routes.hpp"
#include "gateway/api/kserve/kserve_routes.hpp"
#include "gateway/api/llama_server/llama_server_routes.hpp"
#include "gateway/api/ollama/ollama_routes.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/responses/responses_routes.hpp"
#include "gateway/api/tgi/tgi_routes.hpp"
#include "gateway/api/torchserve/torchserve_api.hpp"
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/vllm/vllm_routes.hpp"
#include "gateway/api/worker/worker_routes.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/websocket/socket_protocol.hpp"

#include <algorithm>
#include <vector>

namespace baton::gateway {
namespace {

// A new API adds its table here. Rows that take only bodies of their own come last, so that the
// first row of a path is the one that decides before the body is read.
std::vector<route_row> all_routes() {
  std::vector<route_row> all;
  for (const auto rows :
       {gateway_routes(), openai_routes(), responses_routes(), anthropic_routes(), ollama_routes(),
        llama_server_routes(), vllm_routes(), tgi_routes(), worker_routes(), kserve_routes()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::stable_partition(all.begin(), all.end(),
                        [](const route_row& row) { return row.claim == nullptr; });
  return all;
}

// Whether the row's path is the beginning of many.
bool is_prefix(const route_row& row) noexcept {
  return row.path.size() > 1 && row.path.ends_with('/');
}

bool is_of(const route_row& row, std::string_view path) noexcept {
  return is_prefix(row) ? path.starts_with(row.path) && path.size() > row.path.size()
                        : is_like(row.path, path);
}

bool is_allowed(method_set methods, std::string_view method) noexcept {
  if (method == "OPTIONS") {
    return true;
  }
  if (methods == method_set::post) {
    return method == "POST";
  }
  if (methods == method_set::remove) {
    return method == "DELETE";
  }
  return method == "GET" || (method == "HEAD" && methods == method_set::get);
}

found_route find_row(std::string_view path, std::string_view method, listener_kind listener) {
  found_route found;
  if (listener == listener_kind::ollama && path == ollama_root().path) {
    return {.row = &ollama_root(), .label = ollama_root().path};
  }
  if (listener == listener_kind::ollama && !is_at_ollama(path)) {
    return found;
  }
  for (const auto& row : http_api::routes()) {
    if (!is_of(row, path)) {
      continue;
    }
    if (!found.row) {
      found = {.row = &row, .label = row.path};
    }
    if (is_allowed(row.methods, method)) {
      found.row = &row;
      break;
    }
  }
  return found;
}

std::string allowed(std::string_view path) {
  std::string all;
  for (const auto& row : http_api::routes()) {
    const auto* methods = row.methods == method_set::post     ? "POST, "
                          : row.methods == method_set::remove ? "DELETE, "
                                                              : "GET, HEAD, ";
    if (is_of(row, path) && all.find(methods) == all.npos) {
      all += methods;
    }
  }
  return all + "OPTIONS";
}

bool has_wrong_media(const http_call& call, const route_row& row) {
  const bool has_bytes = // behind the JSON
      row.takes == body_media::json_and_bytes &&
      lower(call.content_type) == "application/octet-stream";
  return row.takes != body_media::any &&
         is_wrong_media(has_bytes ? std::string_view() : call.content_type, call.content_encoding);
}

// Below /v2 errors have Triton's shape, and below /api Ollama's, also where there is no route.
const api_family& family_of(const route_row* row, const http_call& call) {
  if (row) {
    return *row->family;
  }
  const auto path = path_of(call.target);
  const bool is_kserve = path == "/v2" || path.starts_with("/v2/");
  return is_ollama_path(path) ? ollama_family
         : is_kserve          ? kserve_family
                              : family_of(call.listener);
}

http_reply options_reply(std::string methods) {
  http_reply reply;
  reply.status = 204;
  reply.headers.emplace_back("Allow", std::move(methods));
  return reply;
}

http_reply no_such_route(const http_call& call) {
  return family_of(nullptr, call)
      .failure(
          fail(errc::not_found, "there is no route '{}'", path_of(call.target).substr(0, 128)));
}

const api_family& early_family(const http_call& call) {
  const auto path = path_of(call.target);
  return is_torchserve(call.listener)
             ? torchserve_family
             : family_of(find_row(path, call.method, call.listener).row, call);
}

// A proxy acts on the status of the error's row, whatever the API's own status is.
http_reply with_early_status(const http_call& call, errc code, http_reply reply) {
  if (!is_torchserve(call.listener)) {
    reply.status = row_of(code).http_status;
  }
  return reply;
}

} // namespace

const api_family& family_of(listener_kind listener) noexcept {
  return is_torchserve(listener)             ? torchserve_family
         : listener == listener_kind::ollama ? ollama_family
                                             : openai_family;
}

http_api::http_api(std::shared_ptr<gateway_state> facts) : facts_(std::move(facts)) {}

std::span<const route_row> http_api::routes() {
  static const auto all = all_routes();
  return all;
}

found_route http_api::find(const http_call& call) {
  if (!is_torchserve(call.listener)) {
    return find_row(path_of(call.target), call.method, call.listener);
  }
  auto found = find_torchserve(call);
  const auto label = found.route.name;
  return {.label = label, .torchserve = std::move(found)};
}

http_reply http_api::refuse_early(const http_call& call, const error& e) {
  return with_early_status(call, e.code, early_family(call).failure(e));
}

http_reply http_api::refuse_early(const http_call& call, const rejected& no) {
  const auto status = row_of(no.reason.code).http_status;
  return with_early_status(call, no.reason.code, early_family(call).refusal(no, status));
}

bool http_api::is_open(const http_call& call, const found_route& route) {
  return route.torchserve ? path_of(call.target) == "/ping"
                          : route.row && route.row->access == route_access::open;
}

// A call that no row lets in needs a key as well: without one a client cannot learn the routes.
result<principal> http_api::identify(const http_call& call, const route_row* row) const {
  auto access = row ? row->access : route_access::user;
  if (access == route_access::page) {
    access = facts_->authenticator().needs_key() ? route_access::open : route_access::admin;
  }
  if (access == route_access::open) {
    return principal{};
  }
  if (access == route_access::admin && call.listener == listener_kind::admin) {
    return principal{};
  }
  const auto& authenticator = facts_->authenticator();
  if (access == route_access::admin && !authenticator.needs_key() &&
      !facts_->config().admin.empty()) {
    return fail(errc::forbidden, "'{}' is served at the operator's address (gateway.admin)",
                row->path);
  }
  const bool is_socket = row && row->methods == method_set::socket;
  const auto offered = is_socket ? key_of_offer(call.protocols) : std::string();
  auto shown = bearer_key(call.authorization);
  if (shown.empty()) {
    shown = call.api_key.empty() ? std::string_view(offered) : call.api_key;
  }
  auto who = authenticator.identify(shown);
  if (who && access == route_access::admin && who->role != key_role::admin) {
    return fail(errc::forbidden, "'{}' needs the API key of an admin", row->path);
  }
  return who;
}

http_api::access_result http_api::admit(const http_call& call, const found_route& route) const {
  if (call.target == "*") { // OPTIONS of the whole server
    return {{}, options_reply("GET, HEAD, POST, DELETE, OPTIONS")};
  }
  if (route.torchserve) {
    return admit_torchserve(call, *route.torchserve, *facts_);
  }
  if (call.listener == listener_kind::admin && !is_local_name(call.host)) {
    return {{},
            error_reply(fail(errc::forbidden, "the only host name of this address is localhost"))};
  }
  auto who = identify(call, route.row);
  if (!who) {
    return {{}, family_of(route.row, call).failure(who.error())};
  }
  return {*std::move(who), refuse(call, route.row)};
}

std::optional<http_reply> http_api::refuse(const http_call& call, const route_row* row) const {
  const auto path = path_of(call.target);
  if (!row) {
    return no_such_route(call);
  }
  if (!is_allowed(row->methods, call.method)) {
    auto reply = row->family->failure(
        fail(errc::method_not_allowed, "'{}' does not take {}", row->path, call.method));
    reply.headers.emplace_back("Allow", allowed(path));
    return reply;
  }
  if (row->methods != method_set::get && is_foreign(call.origin, call.host)) {
    return row->family->failure(
        fail(errc::forbidden, "requests from pages of other sites are refused"));
  }
  if (row->methods == method_set::post && call.method == "POST" && has_wrong_media(call, *row)) {
    const bool is_coded =
        !call.content_encoding.empty() && lower(call.content_encoding) != "identity";
    return row->family->failure(
        fail(errc::unsupported_media_type, "the body must {}",
             is_coded ? "not be compressed" : "be JSON in UTF-8: application/json"));
  }
  if (row->is_per_gateway && facts_->config().shares_http &&
      call.listener != listener_kind::admin) {
    return row->family->failure(fail(errc::conflict,
                                     "several gateways share this address, and each has its own "
                                     "{}: ask at gateway.admin and the ports behind it",
                                     row->path));
  }
  return std::nullopt;
}

api_call http_api::plan(const http_call& call, const found_route& route) const {
  if (route.torchserve) {
    return plan_torchserve(call, *route.torchserve, *facts_);
  }
  const auto path = path_of(call.target);
  const auto* row = route.row;
  if (!row) {
    return no_such_route(call);
  }
  if (call.method == "OPTIONS") {
    return options_reply(allowed(path));
  }
  for (const auto& other : routes()) {
    if (!other.claim || !is_shared(other, *row)) {
      continue;
    }
    if (auto own = other.claim(call, *facts_)) {
      return *std::move(own);
    }
  }
  return row->handler ? row->handler(call, *facts_)
                      : row->family->failure(fail(errc::invalid_request,
                                                  "'{}' does not take such a body", row->path));
}

} // namespace baton::gateway
