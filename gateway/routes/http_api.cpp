#include "gateway/routes/http_api.hpp"

#include "gateway/api/kserve/kserve_api.hpp"
#include "gateway/api/openai/openai_response.hpp"
#include "gateway/api/openai/openai_tools.hpp"
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/api/tgi/tgi_response.hpp"
#include "gateway/api/torchserve/torchserve_api.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/routes/error_words.hpp"
#include "gateway/routes/openapi.hpp"
#include "gateway/routes/placeholder_model.hpp"
#include "gateway/routes/status_response.hpp"
#include "gateway/routes/web_page.hpp"
#include "gateway/websocket/socket_protocol.hpp"

#include <algorithm>
#include <array>

namespace baton::gateway {
namespace {

constexpr std::string_view worker_prefix = "/v1/workers/";
constexpr std::array own_routes{
    route_row{"/", method_set::get, route_access::page},
    route_row{web_prefix, method_set::get, route_access::page},
    route_row{"/", method_set::post, route_access::user, api_family::tgi},
    route_row{"/health", method_set::get, route_access::open},
    route_row{"/ping", method_set::get, route_access::open},
    route_row{"/version", method_set::get, route_access::user},
    route_row{"/openapi.json", method_set::get, route_access::user},
    route_row{"/load", method_set::get, route_access::admin},
    route_row{"/cluster", method_set::get, route_access::admin},
    route_row{"/metrics", method_set::get, route_access::admin},
    route_row{"/v1/models", method_set::get, route_access::user},
    route_row{model_prefix, method_set::get, route_access::user},
    route_row{"/v1/stream", method_set::socket, route_access::user},
    route_row{"/v1/chat/completions", method_set::post, route_access::user},
    route_row{"/v1/completions", method_set::post, route_access::user},
    route_row{"/v1/embeddings", method_set::post, route_access::user},
    route_row{"/v1/responses", method_set::post, route_access::user},
    route_row{"/v1/responses/{id}", method_set::get, route_access::user},
    route_row{"/v1/responses/{id}", method_set::remove, route_access::user},
    route_row{"/v1/responses/{id}/cancel", method_set::post, route_access::user},
    route_row{"/tokenize", method_set::post, route_access::user},
    route_row{"/detokenize", method_set::post, route_access::user},
    route_row{"/generate", method_set::post, route_access::user, api_family::tgi},
    route_row{"/generate_stream", method_set::post, route_access::user, api_family::tgi},
    route_row{"/info", method_set::get, route_access::user, api_family::tgi},
    route_row{worker_prefix, method_set::post, route_access::user, api_family::openai,
              /*takes_any_media=*/true},
};
constexpr auto routes = [] {
  std::array<route_row, own_routes.size() + kserve_routes.size()> all{};
  std::copy(kserve_routes.begin(), kserve_routes.end(),
            std::copy(own_routes.begin(), own_routes.end(), all.begin()));
  return all;
}();

// The routes of which a path is the beginning, and any rest its end.
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

// The row of the path that takes the method; if none does, the first one of the path.
const route_row* find_route(std::string_view path, std::string_view method) noexcept {
  const route_row* of_path = nullptr;
  for (const auto& row : routes) {
    if (!is_of(row, path)) {
      continue;
    }
    if (is_allowed(row.methods, method)) {
      return &row;
    }
    of_path = of_path ? of_path : &row;
  }
  return of_path;
}

std::string allowed(std::string_view path) {
  std::string all;
  for (const auto& row : routes) {
    if (is_of(row, path)) {
      all += row.methods == method_set::post     ? "POST, "
             : row.methods == method_set::remove ? "DELETE, "
                                                 : "GET, HEAD, ";
    }
  }
  return all + "OPTIONS";
}

bool has_wrong_media(const http_call& call, const route_row& row) {
  const bool has_tensors = // behind the JSON
      row.path.ends_with("/infer") && lower(call.content_type) == "application/octet-stream";
  return is_wrong_media(has_tensors ? std::string_view() : call.content_type,
                        call.content_encoding);
}

const error_words& errors_for(const route_row* row, std::string_view path) {
  const auto otherwise = is_kserve(path) ? api_family::kserve : api_family::openai;
  return errors_of(row ? row->speaks : otherwise);
}

http_reply refusal(const error& e, const route_row* row = nullptr, std::string_view path = {}) {
  return errors_for(row, path).failure(e);
}

http_reply options_reply(std::string methods) {
  http_reply reply;
  reply.status = 204;
  reply.headers.emplace_back("Allow", std::move(methods));
  return reply;
}

template <class Call>
http_plan plan_of(result<Call> parsed, api_family speaks = api_family::openai) {
  if (!parsed) {
    return errors_of(speaks).failure(parsed.error());
  }
  return *std::move(parsed);
}

// Of a call whose client may be TGI's.
template <class Call>
result<Call> settled(result<Call> parsed, const gateway_state& facts) {
  if (parsed) {
    settle_model(*parsed, facts);
  }
  return parsed;
}

http_plan plan_tokenize(std::string_view body, const gateway_state& facts) {
  const auto& limits = facts.config().request;
  if (auto tgi = parse_tgi_tokenize(body, limits)) {
    return plan_of(settled(*std::move(tgi), facts), api_family::tgi);
  }
  return plan_of(parse_tokenize(body, limits));
}

// Its events have no ids: a stream cannot be gone on with.
result<tgi_generate> read_tgi(tgi_route route, const http_call& call, const gateway_state& facts) {
  if (!call.last_event_id.empty()) {
    return fail_param(errc::unsupported_parameter, "Last-Event-ID",
                      "only streams of /v1 can be gone on with");
  }
  return settled(parse_tgi(route, call.body, facts.config()), facts);
}

// A body with `prompt` is vLLM's; every other one is TGI's.
http_plan plan_generate(const http_call& call, const gateway_state& facts) {
  auto vllm = parse_vllm_generate(call.body, facts.config().request);
  if (!vllm) {
    return plan_of(read_tgi(tgi_route::generate, call, facts), api_family::tgi);
  }
  if (!call.last_event_id.empty()) {
    return refusal(fail_param(errc::unsupported_parameter, "Last-Event-ID",
                              "only streams of /v1 can be gone on with"));
  }
  return plan_of(*std::move(vllm));
}

// A request that says Last-Event-ID is one that was made before, whose stream broke.
result<openai_generate> read_call(openai_api api, const http_call& call,
                                  const gateway_state& facts) {
  auto parsed = settled(parse_generation(api, call.body, facts.config().request), facts);
  if (!parsed) {
    return parsed;
  }
  if (parsed->request.is_resumable && !parsed->shape.is_stream) {
    return fail_param(errc::invalid_value, "resumable", "only a stream is resumable: set 'stream'");
  }
  if (call.last_event_id.empty()) {
    return parsed;
  }
  if (!parsed->shape.is_stream) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "only a stream can be gone on with: set 'stream'");
  }
  if (parsed->shape.prompts > 1) {
    return fail_param(errc::unsupported_parameter, "Last-Event-ID",
                      "a stream of several prompts cannot be gone on with: send one request for "
                      "each");
  }
  auto position = parse_position(call.last_event_id, parsed->shape.choices);
  if (!position) {
    return position.error();
  }
  if (position->text_bytes.empty() == parsed->tools.has_value()) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "this is a place in a stream {} tools: send the request that was made",
                      parsed->tools ? "without" : "with");
  }
  parsed->resume = *std::move(position);
  return parsed;
}

// The model's name, or its name and its version: NAME, NAME/VERSION.
result<worker_call> read_worker_call(std::string_view target, const http_call& call) {
  const auto slash = target.find('/');
  const auto name = percent_decoded(target.substr(0, slash));
  const auto version = slash == std::string_view::npos ? std::optional(std::string())
                                                       : percent_decoded(target.substr(slash + 1));
  if (!name || !version) {
    return fail_param(errc::model_not_found, "model", "there is no such model");
  }
  worker_call told;
  told.request.model = *name;
  told.request.version = *version;
  told.request.body = call.body;
  told.request.content_type = call.content_type;
  if (call.headers_for_handlers) {
    told.request.headers = call.headers_for_handlers();
  }
  return told;
}

} // namespace

http_api::http_api(std::shared_ptr<gateway_state> facts) : facts_(std::move(facts)) {}

std::span<const route_row> http_api::routes() noexcept {
  return ::baton::gateway::routes;
}

std::string_view http_api::route_name(const http_call& call) {
  if (is_torchserve(call.listener)) {
    return torchserve_api::route_name(call);
  }
  const auto* row = find_route(path_of(call.target), {});
  return row ? row->path : "other";
}

namespace {

const error_words& early_errors(const http_call& call) {
  const auto path = path_of(call.target);
  return is_torchserve(call.listener) ? errors_of(api_family::torchserve)
                                      : errors_for(find_route(path, call.method), path);
}

// A proxy acts on the status of the error's row, whatever the API says in its place.
http_reply with_early_status(const http_call& call, errc code, http_reply reply) {
  if (!is_torchserve(call.listener)) {
    reply.status = row_of(code).http_status;
  }
  return reply;
}

} // namespace

http_reply http_api::refuse_early(const http_call& call, const error& e) {
  return with_early_status(call, e.code, early_errors(call).failure(e));
}

http_reply http_api::refuse_early(const http_call& call, const rejected& no) {
  const auto status = row_of(no.reason.code).http_status;
  return with_early_status(call, no.reason.code, early_errors(call).refusal(no, status));
}

bool http_api::is_open(const http_call& call) {
  const auto path = path_of(call.target);
  if (is_torchserve(call.listener)) {
    return path == "/ping";
  }
  const auto* row = find_route(path, call.method);
  return row && row->access == route_access::open;
}

// What no row of the table lets in needs a key all the same: nobody learns which routes there are.
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
    return fail(errc::forbidden, "'{}' is at the operator's door (gateway.admin)", row->path);
  }
  const bool is_socket = row && row->methods == method_set::socket;
  const auto offered = is_socket ? key_of_offer(call.protocols) : std::string();
  const auto shown = bearer_key(call.authorization);
  auto who = authenticator.identify(shown.empty() ? std::string_view(offered) : shown);
  if (who && access == route_access::admin && who->role != key_role::admin) {
    return fail(errc::forbidden, "'{}' needs the API key of an admin", row->path);
  }
  return who;
}

http_api::access_result http_api::admit(const http_call& call) const {
  if (call.target == "*") { // OPTIONS of the whole server: that it is there
    return {{}, options_reply("GET, HEAD, POST, DELETE, OPTIONS")};
  }
  if (is_torchserve(call.listener)) {
    return torchserve_api(facts_).admit(call);
  }
  if (call.listener == listener_kind::admin && !is_local_name(call.host)) {
    return {{}, refusal(fail(errc::forbidden, "this door has no name but localhost"))};
  }
  const auto* row = find_route(path_of(call.target), call.method);
  auto who = identify(call, row);
  if (!who) {
    return {{}, refusal(who.error(), row, path_of(call.target))};
  }
  return {*std::move(who), refuse(call)};
}

std::optional<http_reply> http_api::refuse(const http_call& call) const {
  const auto path = path_of(call.target);
  const auto* row = find_route(path, call.method);
  if (!row) {
    return refusal(fail(errc::not_found, "there is no route '{}'", path.substr(0, 128)), nullptr,
                   path);
  }
  if (!is_allowed(row->methods, call.method)) {
    auto reply = refusal(
        fail(errc::method_not_allowed, "'{}' does not take {}", row->path, call.method), row);
    reply.headers.emplace_back("Allow", allowed(path));
    return reply;
  }
  if (row->methods != method_set::get && is_foreign(call.origin, call.host)) {
    return refusal(fail(errc::forbidden, "requests from pages of other sites are refused"), row);
  }
  if (row->methods == method_set::post && call.method == "POST" && !row->takes_any_media &&
      has_wrong_media(call, *row)) {
    return refusal(
        fail(errc::unsupported_media_type, "the body must be JSON in UTF-8: application/json"),
        row);
  }
  if (path == "/metrics" && facts_->config().shares_http && call.listener != listener_kind::admin) {
    return refusal(fail(errc::conflict, "several gateways share this address, and each has its own "
                                        "/metrics: ask at gateway.admin and the ports behind it"));
  }
  return std::nullopt;
}

// How calls of tools are written, and drawn, is the model's matter.
result<openai_generate> http_api::read_chat(const http_call& call) const {
  auto parsed = read_call(openai_api::chat, call, *facts_);
  if (parsed) {
    if (auto ok = settle_tools(*parsed); !ok) {
      return ok.error();
    }
  }
  return parsed;
}

// Its events are numbered: who comes back asks for the stored response.
result<response_create> http_api::read_response(const http_call& call) const {
  if (!call.last_event_id.empty()) {
    return fail_param(errc::unsupported_parameter, "Last-Event-ID",
                      "ask for the response with ?stream=true&starting_after=NUMBER");
  }
  auto parsed = parse_response(call.body, facts_->config());
  if (parsed) {
    if (auto ok = settle_tools(parsed->call); !ok) {
      return ok.error();
    }
    const auto& asked = parsed->call.request.model;
    const auto card = find_model(*facts_->look(), facts_->config().model_aliases, asked);
    if (card) { // else reception refuses it
      add_model_defaults(card->sampling, *parsed);
    }
  }
  return parsed;
}

result<void> http_api::settle_tools(openai_generate& call) const {
  if (!call.tools) {
    return {};
  }
  const auto card = find_model(*facts_->look(), facts_->config().model_aliases, call.request.model);
  return card ? settle_calls(call, card->call_format) : card.error();
}

http_plan http_api::plan(const http_call& call) const {
  if (is_torchserve(call.listener)) {
    return torchserve_api(facts_).plan(call);
  }
  const auto path = path_of(call.target);
  const auto* row = find_route(path, call.method);
  if (!row) {
    return refusal(fail(errc::not_found, "there is no route '{}'", path.substr(0, 128)), nullptr,
                   path);
  }
  if (call.method == "OPTIONS") {
    return options_reply(allowed(path));
  }
  if (row->speaks == api_family::kserve) {
    return plan_kserve(path, call, *facts_);
  }
  const auto& limits = facts_->config().request;
  if (path == "/generate") {
    return plan_generate(call, *facts_);
  }
  if (path == "/generate_stream") {
    return plan_of(read_tgi(tgi_route::generate_stream, call, *facts_), api_family::tgi);
  }
  if (path == "/" && call.method == "POST") {
    return plan_of(read_tgi(tgi_route::root, call, *facts_), api_family::tgi);
  }
  if (path == "/v1/chat/completions") {
    return plan_of(read_chat(call));
  }
  if (path == "/v1/completions") {
    return plan_of(read_call(openai_api::completions, call, *facts_));
  }
  if (path == "/v1/embeddings") {
    return plan_of(parse_embeddings(call.body, limits));
  }
  if (path == "/v1/responses") {
    return plan_of(read_response(call));
  }
  if (path.starts_with("/v1/responses/")) {
    return plan_of(parse_response_question(call.method, call.target));
  }
  if (path == "/tokenize") {
    return plan_tokenize(call.body, *facts_);
  }
  if (path == "/detokenize") {
    return plan_of(parse_detokenize(call.body, limits));
  }
  if (path.starts_with(worker_prefix)) {
    return plan_of(read_worker_call(path.substr(worker_prefix.size()), call));
  }
  if (row->methods == method_set::socket) {
    if (call.is_websocket_upgrade) {
      return websocket_upgrade{};
    }
    return refusal(fail(errc::invalid_request, "'/v1/stream' is a WebSocket: connect with one"));
  }
  return answer_get(path, call);
}

} // namespace baton::gateway
