#include "gateway/api/anthropic/anthropic_routes.hpp"

#include "gateway/api/anthropic/anthropic_error.hpp"
#include "gateway/api/anthropic/anthropic_request.hpp"
#include "gateway/api/anthropic/anthropic_response.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/state/gateway_state.hpp"

#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered anthropic_error_schema() {
  const ordered inner{
      {"type", "object"},
      {"required", {"type", "message"}},
      {"properties", {{"type", type_schema("string")}, {"message", type_schema("string")}}}};
  return {
      {"type", "object"},
      {"required", {"type", "error"}},
      {"properties",
       {{"type", {{"const", "error"}}}, {"error", inner}, {"request_id", type_schema("string")}}}};
}

generation_call answer_message(openai_generate asked) {
  auto out = open_prompts(asked);
  out.can_resume = out.is_stream;
  out.resume = asked.resume;
  if (out.resume) { // blocks are made of all of the text (anthropic_stream)
    out.resume->from.assign(1, {});
  }
  out.whole = [shape = asked.shape](const std::string&) {
    return std::make_unique<anthropic_unary>(shape);
  };
  out.events = [shape = asked.shape, from = std::move(asked.resume)](const std::string&,
                                                                     const reply_identity& who) {
    return std::make_unique<anthropic_stream>(shape, who, from);
  };
  out.waiting = anthropic_ping;
  out.family = &anthropic_family;
  return out;
}

api_call create_message(const http_call& call, gateway_state& facts) {
  auto parsed = parse_anthropic(call.body, facts.config().request);
  if (parsed) {
    auto ok = resume_answer(call, *parsed);
    ok = ok ? settle_answer(*parsed, facts) : ok;
    if (!ok) {
      return anthropic_failure(ok.error());
    }
  }
  return with_parsed(std::move(parsed), anthropic_family, answer_message);
}

api_call count_message(const http_call& call, gateway_state& facts) {
  return with_parsed(parse_anthropic_count(call.body, facts.config().request), anthropic_family,
                     [](tokenize_call asked) {
                       auto out = tokenize_message(asked);
                       out.writer = write_message<tokenized>([](const tokenized& answer) {
                         return json_reply(
                             fmt::format(R"({{"input_tokens":{}}})", answer.ids.size()));
                       });
                       out.family = &anthropic_family;
                       return out;
                     });
}

constexpr route_row anthropic_row(std::string_view path,
                                  api_call (*handler)(const http_call&, gateway_state&),
                                  route_doc doc) {
  return {.path = path,
          .methods = method_set::post,
          .access = route_access::user,
          .family = &anthropic_family,
          .handler = handler,
          .doc = doc,
          .id_header = "request-id"};
}

} // namespace

constinit const api_family anthropic_family{"AnthropicError", anthropic_error_schema,
                                            anthropic_refusal,
                                            [](const error& e) { return anthropic_failure(e); }};

std::span<const route_row> anthropic_routes() noexcept {
  static constexpr route_row rows[] = {
      anthropic_row("/v1/messages", create_message,
                    {"An answer to a conversation in Anthropic's format", anthropic_schema,
                     json_media, event_media}),
      anthropic_row("/v1/messages/count_tokens", count_message,
                    {"The tokens of such a conversation", anthropic_count_schema}),
  };
  return rows;
}

} // namespace baton::gateway
