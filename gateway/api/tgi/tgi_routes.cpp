#include "gateway/api/tgi/tgi_routes.hpp"

#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/tgi/tgi_response.hpp"
#include "gateway/state/gateway_state.hpp"

#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// Where TGI's parameters are not OpenAI's.
ordered tgi_schemas(const request_limits& l) {
  return {{"temperature", range_schema({0, temperature_range.most, true})},
          {"top_k", integer_schema(1, top_k_max)},
          {"frequency_penalty", range_schema(penalty_range)},
          {"seed", integer_schema(0, std::numeric_limits<std::int64_t>::max())},
          {"do_sample", type_schema("boolean")},
          {"watermark", type_schema("boolean")},
          {"max_new_tokens", integer_schema(1, l.max_tokens)},
          {"details", type_schema("boolean")},
          {"decoder_input_details", type_schema("boolean")},
          {"return_full_text", type_schema("boolean")},
          {"top_n_tokens", integer_schema(0, l.logprobs_max)},
          {"truncate", integer_schema(1, static_cast<std::int64_t>(l.prompt_ids_max))},
          {"grammar", {{"type", "object"}, {"required", {"type", "value"}}}}};
}

ordered tgi_inputs() {
  return {{"type", "string"}, {"minLength", 1}};
}

ordered tgi_error_schema() {
  return {
      {"type", "object"},
      {"required", {"error"}},
      {"properties", {{"error", type_schema("string")}, {"error_type", type_schema("string")}}}};
}

generation_call answer_generate(tgi_generate call) {
  generation_call out;
  out.requests.push_back(std::move(call.request));
  out.client_names.push_back(tgi_field_names());
  out.is_stream = call.shape.is_stream;
  out.whole = [shape = call.shape](const std::string&) {
    return std::make_unique<tgi_unary>(shape);
  };
  out.events = [shape = call.shape](const std::string&, const reply_identity&) {
    return std::make_unique<tgi_events>(shape);
  };
  out.event_headers = tgi_headers(call.shape);
  out.family = &tgi_family;
  return out;
}

template <tgi_route route>
api_call generate_as(const http_call& call, gateway_state& facts) {
  if (auto ok = check_is_new(call); !ok) {
    return tgi_failure(ok.error());
  }
  auto parsed = parse_tgi(route, call.body, facts.config());
  if (parsed && is_placeholder(facts, parsed->request.model)) {
    parsed->request.model.clear();
  }
  return with_parsed(std::move(parsed), tgi_family, answer_generate);
}

api_call describe_server(const http_call& /*call*/, gateway_state& facts) {
  const auto card = find_model(*facts.look(), {}, {});
  return card ? json_reply(tgi_info_body(*card, facts.config())) : tgi_failure(card.error());
}

// A body without `inputs` is another API's.
std::optional<api_call> tokenize_inputs(const http_call& call, gateway_state& facts) {
  auto parsed = parse_tgi_tokenize(call.body, facts.config().request);
  if (!parsed) {
    return std::nullopt;
  }
  if (*parsed && is_placeholder(facts, (*parsed)->model)) {
    (*parsed)->model.clear();
  }
  return with_parsed(*std::move(parsed), tgi_family, answer_tgi);
}

ordered tgi_body_schema(const gateway_config& config) {
  auto known = sampling_schemas(config.request);
  known.update(tgi_schemas(config.request));
  const auto fields = tgi_fields_of(config);
  auto parameters = ordered::object(), properties = ordered::object();
  for (const auto& name : fields.parameters) {
    parameters[name] = known.contains(name) ? or_null(known[name]) : ordered::object();
  }
  for (const auto& name : fields.body) {
    properties[name] =
        or_null(name == "model" ? type_schema("string") : type_schema("boolean")); // `stream`
  }
  properties["inputs"] = tgi_inputs();
  properties["parameters"] = or_null({{"type", "object"}, {"properties", std::move(parameters)}});
  return {{"type", "object"}, {"required", {"inputs"}}, {"properties", std::move(properties)}};
}

ordered tgi_tokenize_schema(const gateway_config& /*config*/) {
  return {{"type", "object"},
          {"required", {"inputs"}},
          {"properties", {{"inputs", tgi_inputs()}, {"model", or_null(type_schema("string"))}}}};
}

} // namespace

constinit const api_family tgi_family{"TgiError", tgi_error_schema, tgi_refusal,
                                      [](const error& e) { return tgi_failure(e); }};

message_call answer_tgi(tokenize_call call) {
  auto text = std::get<std::string>(call.input);
  auto out = tokenize_message(call);
  out.writer = write_message<tokenized>([text = std::move(text)](const tokenized& answer) {
    return json_reply(tgi_tokenize_body(answer, text));
  });
  out.family = &tgi_family;
  return out;
}

std::span<const route_row> tgi_routes() noexcept {
  using enum method_set;
  constexpr auto row = user_rows_of(&tgi_family);
  static constexpr route_row rows[] = {
      {.path = "/tokenize",
       .methods = post,
       .access = route_access::user,
       .family = &tgi_family,
       .doc = {.summary = "", .body = tgi_tokenize_schema},
       .claim = tokenize_inputs},
      row("/generate", post, generate_as<tgi_route::generate>,
          {"The same in one piece", tgi_body_schema}),
      row("/", post, generate_as<tgi_route::root>,
          {"The continuation of a text in TGI's format: a list of one, or events", tgi_body_schema,
           json_media, event_media}),
      row("/generate_stream", post, generate_as<tgi_route::generate_stream>,
          {"The same as events", tgi_body_schema, event_media}),
      row("/info", get, describe_server, {"The model and the server's limits, in TGI's words"}),
  };
  return rows;
}

} // namespace baton::gateway
