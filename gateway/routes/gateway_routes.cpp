// The routes that belong to no API: the page, and the status of the server and of the cluster.
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/routes/status_response.hpp"
#include "gateway/routes/web_page.hpp"

namespace baton::gateway {
namespace {

api_call standing_reply(const snapshot& s, std::string body) {
  auto reply = json_reply(std::move(body));
  if (standing_of(s).phase != phase::ready) {
    reply.status = row_of(errc::not_ready).http_status;
    reply.headers.emplace_back("Retry-After", "1");
  }
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

api_call serve_page(const http_call& call, gateway_state& /*facts*/) {
  return web_reply(path_of(call.target), {call.if_none_match, call.accept_encoding});
}

api_call serve_health(const http_call& /*call*/, gateway_state& facts) {
  const auto now = facts.look();
  return standing_reply(*now, health_body(*now));
}

api_call serve_ping(const http_call& /*call*/, gateway_state& facts) {
  const auto now = facts.look();
  return standing_reply(*now, ping_body(*now));
}

api_call serve_version(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(version_body(facts.config().build));
}

api_call serve_openapi(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(openapi_body(facts.config()));
}

api_call serve_load(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(load_body(*facts.look(), facts.requests_open()));
}

api_call serve_cluster(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(cluster_body(*facts.look(), facts.requests_open()));
}

api_call serve_metrics(const http_call& /*call*/, gateway_state& facts) {
  auto reply =
      json_reply(facts.metrics().text(*facts.look(), facts.requests_open(),
                                      facts.authenticator().usage(), facts.worker_views()) +
                 worker_metrics(facts.worker_views()) + facts.handler_metrics()->text());
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return reply;
}

} // namespace

std::span<const route_row> gateway_routes() noexcept {
  using enum route_access;
  constexpr auto row = [](std::string_view path, route_access access, auto handler, route_doc doc,
                          bool is_per_gateway = false) {
    return route_row{.path = path,
                     .methods = method_set::get,
                     .access = access,
                     .family = &openai_family,
                     .handler = handler,
                     .doc = doc,
                     .is_per_gateway = is_per_gateway};
  };
  static constexpr route_row rows[] = {
      row("/", page, serve_page,
          {"The page: chat beside a picture of the cluster", nullptr, "text/html"}),
      row(web_prefix, page, serve_page, {"A file of the page", nullptr, "text/javascript"}),
      row("/health", open, serve_health, {"Whether a request that came now would be served"}),
      row("/ping", open, serve_ping, {"The same in TorchServe's words"}),
      row("/version", user, serve_version, {"The build"}),
      row("/openapi.json", user, serve_openapi, {"This document"}),
      row("/load", admin, serve_load, {"Open requests, and what the schedulers have to do"}),
      row("/cluster", admin, serve_cluster, {"What the page draws: models, processes, load"}),
      row("/metrics", admin, serve_metrics, {"Prometheus metrics", nullptr, "text/plain"},
          /*is_per_gateway=*/true),
  };
  return rows;
}

} // namespace baton::gateway
