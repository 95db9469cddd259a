#include "gateway/api/responses/responses_routes.hpp"

#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/state/gateway_state.hpp"

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered responses_schema(const gateway_config& config) {
  const auto& l = config.request;
  auto known = sampling_schemas(l);
  known.update(body_schemas(l));
  auto items = list_schema(type_schema("object"));
  items["minItems"] = 1;
  items["maxItems"] = l.messages_max;
  known.update({{"max_output_tokens", integer_schema(1, l.max_tokens)},
                {"instructions", type_schema("string")},
                {"previous_response_id", type_schema("string")},
                {"metadata", {{"type", "object"}, {"additionalProperties", type_schema("string")}}},
                {"text", type_schema("object")},
                {"reasoning", type_schema("object")},
                {"include", list_schema(type_schema("string"))},
                {"store", type_schema("boolean")},
                {"background", type_schema("boolean")}});
  known["tools"]["items"] = {{"type", "object"}, {"required", {"type", "name"}}};
  auto properties = ordered::object();
  for (const auto& name : response_fields_of(config)) {
    properties[name] = known.contains(name) ? or_null(known[name]) : ordered::object();
  }
  properties["input"] = any_schema({type_schema("string"), std::move(items)});
  return {{"type", "object"}, {"required", {"input"}}, {"properties", std::move(properties)}};
}

template <class What>
std::shared_ptr<response_call> response_of(What what) {
  return std::make_shared<response_call>(response_call{std::move(what)});
}

// Its events are numbered: a client that comes back asks for the stored response.
api_call create_response(const http_call& call, gateway_state& facts) {
  if (!call.last_event_id.empty()) {
    return error_reply(fail_param(errc::unsupported_parameter, "Last-Event-ID",
                                  "ask for the response with ?stream=true&starting_after=NUMBER"));
  }
  auto parsed = parse_response(call.body, facts.config());
  if (parsed) {
    if (auto ok = settle_answer(parsed->call, facts); !ok) {
      return error_reply(ok.error());
    }
    const auto& asked = parsed->call.request.model;
    const auto card = find_model(*facts.look(), facts.config().model_aliases, asked);
    if (card) { // else it is refused when it is opened
      add_model_defaults(card->sampling, *parsed);
    }
  }
  return with_parsed(std::move(parsed), openai_family, response_of<response_create>);
}

api_call ask_response(const http_call& call, gateway_state& /*facts*/) {
  return with_parsed(parse_response_question(call.method, call.target), openai_family,
                     response_of<response_question>);
}

} // namespace

std::span<const route_row> responses_routes() noexcept {
  using enum method_set;
  constexpr auto row = user_rows_of(&openai_family);
  static constexpr route_row rows[] = {
      row("/v1/responses", post, create_response,
          {"An answer to a conversation that may be stored and continued", responses_schema,
           json_media, event_media}),
      row("/v1/responses/{id}", get, ask_response,
          {"A stored response, or its events", nullptr, json_media, event_media}),
      row("/v1/responses/{id}", remove, ask_response,
          {"Forgets a response, and ends it if it still runs"}),
      row("/v1/responses/{id}/cancel", post, ask_response, {"Ends a response in the background"}),
  };
  return rows;
}

} // namespace baton::gateway
