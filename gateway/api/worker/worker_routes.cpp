#include "gateway/api/worker/worker_routes.hpp"

#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/workers/worker_reply.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {
namespace {

constexpr std::string_view worker_prefix = "/v1/workers/"; // NAME or NAME/VERSION follows

result<worker_call> read_worker_call(const http_call& call) {
  const auto target = path_of(call.target).substr(worker_prefix.size());
  const auto slash = target.find('/');
  const auto name = percent_decoded(target.substr(0, slash));
  const auto version = slash == std::string_view::npos ? std::optional(std::string())
                                                       : percent_decoded(target.substr(slash + 1));
  if (!name || !version) {
    return fail_param(errc::model_not_found, "model", "there is no such model");
  }
  worker_call out;
  out.request.model = *name;
  out.request.version = *version;
  out.request.body = call.body;
  out.request.content_type = call.content_type;
  if (call.headers_for_handlers) {
    out.request.headers = call.headers_for_handlers();
  }
  out.writer = std::make_unique<raw_writer>();
  out.family = &openai_family;
  return out;
}

api_call ask_worker(const http_call& call, gateway_state& /*facts*/) {
  return with_parsed(read_worker_call(call), openai_family,
                     [](worker_call asked) { return asked; });
}

} // namespace

std::span<const route_row> worker_routes() noexcept {
  static constexpr route_row rows[] = {
      {.path = worker_prefix,
       .methods = method_set::post,
       .access = route_access::user,
       .family = &openai_family,
       .handler = ask_worker,
       .doc = {.summary = "What a worker model answers to a body, as it comes",
               .body = [](const gateway_config&) { return nlohmann::ordered_json::object(); },
               .media = "*/*"},
       .takes = body_media::any},
  };
  return rows;
}

} // namespace baton::gateway
