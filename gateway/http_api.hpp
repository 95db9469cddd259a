// What each route does with a call: a reply at once, or the typed request to open. Knows paths,
// methods, media types and the authentication gate; knows no socket. Pure but for the board it
// reads.
//
// One gate stands before all routes. Open without a key are /health and /ping alone: load balancers
// and supervisors have none.
#pragma once

#include "gateway/api_keys.hpp"
#include "gateway/board.hpp"
#include "gateway/http_text.hpp"
#include "gateway/openai_request.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <variant>

namespace baton::gateway {

// The parts of a request that routes look at; views into the parser's memory.
struct http_call {
  std::string_view method;
  std::string_view target;
  std::string_view host;
  std::string_view origin;
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view authorization;
  std::string_view last_event_id;
  bool is_websocket_upgrade = false;
  std::string_view body;
};

struct websocket_upgrade {
  std::string caller; // of all requests on it
};
using http_plan =
    std::variant<http_reply, openai_generate, tokenize_call, detokenize_call, websocket_upgrade>;

// What one caller's requests leave in the prefix cache, another's do not find: how long an answer
// takes would tell what others asked.
void set_caller(generate& request, std::string_view caller);

class http_api {
public:
  explicit http_api(std::shared_ptr<board> facts);

  // A refusal that needs no body: unknown path, method, key, foreign origin, media type.
  std::optional<http_reply> refuse_early(const http_call& call) const;
  // Requires: refuse_early(call) gave nothing.
  http_plan plan(const http_call& call) const;
  // The label of the call's route in /metrics; "other" if there is none.
  static std::string_view route_name(std::string_view target) noexcept;

private:
  http_reply answer_get(std::string_view path) const;
  http_reply models_reply(std::string_view path) const;

  std::shared_ptr<board> facts_;
  api_keys keys_;
};

} // namespace baton::gateway
