// What each route does with a call: a reply at once, or the typed request to open. Knows paths,
// methods, media types and the authentication gate; knows no socket. Pure but for the board it
// reads.
//
// One gate stands before all routes. Open without a key are the routes of health: load balancers
// and supervisors have none; and the files of the web page, which asks for one. What the operator
// sees needs an admin's key, or comes over the door of its own (gateway.admin), where whoever is on
// this machine may look.
#pragma once

#include "gateway/api/kserve/kserve_request.hpp"
#include "gateway/api/openai/embedding_request.hpp"
#include "gateway/api/openai/openai_request.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/base/response_writer.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/workers/worker_writer.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace baton::gateway {

// Which listener a connection came through.
enum class listener_kind : std::uint8_t {
  clients,
  admin,
  torchserve_inference,
  torchserve_management,
  torchserve_metrics
};
constexpr bool is_torchserve(listener_kind listener) noexcept {
  return listener >= listener_kind::torchserve_inference;
}
// Where a flood of clients must not lock the operator out.
constexpr bool is_operators(listener_kind listener) noexcept {
  return listener != listener_kind::clients && listener != listener_kind::torchserve_inference;
}
// Where there is a certificate. The operator's door is on loopback, and plain.
constexpr bool is_for_tls(listener_kind listener) noexcept {
  return listener != listener_kind::admin;
}
// In whose words a door refuses what is no request of any route.
constexpr api_family family_of(listener_kind listener) noexcept {
  return is_torchserve(listener) ? api_family::torchserve : api_family::openai;
}

// The parts of a request that routes look at; views into the parser's memory.
struct http_call {
  std::string_view method;
  std::string_view target;
  std::string_view host;
  std::string_view origin;
  std::string_view accept;
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view authorization;
  std::string_view last_event_id;
  std::string_view infer_header_length; // Inference-Header-Content-Length
  std::string_view if_none_match;
  std::string_view accept_encoding;
  std::string_view protocols; // that a WebSocket's client offers
  // Of the call, for handlers that look at them; none: there are none to hand on.
  std::function<std::vector<header_field>()> headers_for_handlers;
  bool is_websocket_upgrade = false;
  bool is_http_1_0 = false;
  listener_kind listener = listener_kind::clients;
  std::string_view body;
};

struct websocket_upgrade {};
// What a worker model is asked, and in whose words it is answered.
struct worker_call {
  infer request;
  std::unique_ptr<worker_writer> how = std::make_unique<raw_writer>();
  api_family speaks = api_family::openai; // of errors
  std::string busy_model{};               // TorchServe's, in whose words a refusal for load has it
  std::function<void(const reply_times&)> ended_well{}; // none: nobody counts
};
// Which models are served is to change: the root answers.
struct repository_call {
  change_model change;
  api_family speaks = api_family::kserve; // of errors
  std::function<http_reply(const model_changed&)> tell = nothing_to_tell;

  static http_reply nothing_to_tell(const model_changed&) {
    http_reply r;
    r.body = "{}";
    return r;
  }
};
using http_plan = std::variant<http_reply, openai_generate, tgi_generate, vllm_generate,
                               kserve_generate, embedding_call, response_create, response_question,
                               tokenize_call, detokenize_call, torchserve_generate,
                               torchserve_batch, websocket_upgrade, worker_call, repository_call>;

enum class method_set : std::uint8_t { get, post, remove, socket };
// `page`: the files of the web page. They have no secrets, and the page asks for the key. Without
// keys they are as `admin`, since the page reads the operator's routes.
enum class route_access : std::uint8_t { open, user, admin, page };
struct route_row {
  // One that ends in '/' is the beginning of many, but for "/"; "{id}" stands for one part.
  std::string_view path;
  method_set methods;
  route_access access;
  api_family speaks = api_family::openai; // in whose words it refuses
  bool takes_any_media = false;           // not JSON alone
};

inline constexpr std::string_view model_prefix = "/v1/models/"; // a model's name follows

class http_api {
public:
  explicit http_api(std::shared_ptr<gateway_state> facts);

  // All routes there are. A path with several rows has other methods in each.
  static std::span<const route_row> routes() noexcept;

  struct access_result {
    principal who;
    // Needs no body: unknown path, method, key, foreign origin, media type.
    std::optional<http_reply> refusal;
  };
  access_result admit(const http_call& call) const;
  // Whether it is asked of a call in which trace it comes.
  bool reads_traces() const noexcept { return facts_->tracer() != nullptr; }
  // Requires: admit(call) refused nothing.
  http_plan plan(const http_call& call) const;
  // The label of the call's route in /metrics; "other" if there is none.
  static std::string_view route_name(const http_call& call);
  // Of a call of which perhaps no more than its first line was read: in the words of its path's
  // API, with HTTP's own status.
  static http_reply refuse_early(const http_call& call, const error& e);
  static http_reply refuse_early(const http_call& call, const rejected& no);
  // Whether the route is open to everybody: health, for load balancers.
  static bool is_open(const http_call& call);

private:
  result<openai_generate> read_chat(const http_call& call) const;
  result<response_create> read_response(const http_call& call) const;
  result<void> settle_tools(openai_generate& call) const;
  std::optional<http_reply> refuse(const http_call& call) const;
  result<principal> identify(const http_call& call, const route_row* row) const;
  http_reply answer_get(std::string_view path, const http_call& call) const;
  http_reply models_reply(std::string_view path) const;

  std::shared_ptr<gateway_state> facts_;
};

} // namespace baton::gateway
