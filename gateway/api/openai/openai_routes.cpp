#include "gateway/api/openai/openai_routes.hpp"

#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/api/openai/reply/embedding_reply.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/state/refusal.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view model_prefix = "/v1/models/"; // a model's name follows

bool has_name(const std::vector<std::string>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

api_call list_models(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(models_body(models_of(*facts.look()), facts.config().model_aliases));
}

api_call describe_model(const http_call& call, gateway_state& facts) {
  const auto cards = models_of(*facts.look());
  const auto& aliases = facts.config().model_aliases;
  const auto id = percent_decoded(path_of(call.target).substr(model_prefix.size()));
  if (id) {
    const auto card = std::find_if(cards.begin(), cards.end(),
                                   [&](const model_card& c) { return c.name == *id; });
    if (card != cards.end()) {
      return json_reply(model_body(*card, *id));
    }
    if (has_name(aliases, *id) && !cards.empty()) {
      return json_reply(model_body(cards.front(), *id));
    }
  }
  return error_reply(fail_param(errc::model_not_found, "model", "the model '{}' does not exist",
                                id.value_or("?")));
}

api_call open_socket(const http_call& call, gateway_state& /*facts*/) {
  return call.is_websocket_upgrade
             ? api_call(websocket_upgrade{})
             : error_reply(
                   fail(errc::invalid_request, "'/v1/stream' is a WebSocket: connect with one"));
}

void settle_placeholder(openai_generate& call, const gateway_state& facts) {
  if (!is_placeholder(facts, call.request.model)) {
    return;
  }
  call.request.model.clear();
  call.shape.model.clear();
  for (auto& request : call.further) {
    request.model.clear();
  }
}

// A request with Last-Event-ID is one that was made before, whose stream broke.
result<openai_generate> read_call(openai_api api, const http_call& call,
                                  const gateway_state& facts) {
  auto parsed = parse_generation(api, call.body, facts.config().request);
  if (!parsed) {
    return parsed;
  }
  settle_placeholder(*parsed, facts);
  if (parsed->request.is_resumable && !parsed->shape.is_stream) {
    return fail_param(errc::invalid_value, "resumable", "only a stream is resumable: set 'stream'");
  }
  if (call.last_event_id.empty()) {
    return parsed;
  }
  if (!parsed->shape.is_stream) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "only a stream can be continued: set 'stream'");
  }
  if (parsed->shape.prompts > 1) {
    return fail_param(errc::unsupported_parameter, "Last-Event-ID",
                      "a stream of several prompts cannot be continued: send one request for "
                      "each");
  }
  auto position = parse_position(call.last_event_id, parsed->shape.choices);
  if (!position) {
    return position.error();
  }
  parsed->resume = *std::move(position);
  return parsed;
}

// Requires: the answer is settled.
result<void> check_resume(const openai_generate& call) {
  if (call.resume && call.resume->text_bytes.empty() == call.shape.is_parsed()) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "this is a place in a stream of another request, or of another model: send "
                      "the request that was made");
  }
  return {};
}

generation_call answer_openai(openai_generate call) {
  auto out = open_prompts(call);
  out.family = &openai_family;
  out.can_resume = out.is_stream && out.requests.size() == 1;
  out.resume = call.resume;
  if (call.resume && call.shape.is_parsed()) {
    out.resume->from.assign(call.resume->from.size(), {});
  }
  const auto shape_for = [shape = std::move(call.shape)](const std::string& model) {
    auto named = shape;
    named.model = named.model.empty() ? model : named.model;
    return named;
  };
  out.whole = [shape_for](const std::string& model) {
    return std::make_unique<openai_unary>(shape_for(model));
  };
  out.events = [shape_for, from = std::move(call.resume)](const std::string& model,
                                                          const reply_identity& who) {
    return std::make_unique<openai_stream>(shape_for(model), who, from);
  };
  return out;
}

api_call complete_chat(const http_call& call, gateway_state& facts) {
  auto parsed = read_call(openai_api::chat, call, facts);
  if (parsed) {
    auto ok = settle_answer(*parsed, facts);
    ok = ok ? check_resume(*parsed) : ok;
    if (!ok) {
      return error_reply(ok.error());
    }
  }
  return with_parsed(std::move(parsed), openai_family, answer_openai);
}

api_call complete_text(const http_call& call, gateway_state& facts) {
  auto parsed = read_call(openai_api::completions, call, facts);
  if (parsed) {
    if (auto ok = check_resume(*parsed); !ok) {
      return error_reply(ok.error());
    }
  }
  return with_parsed(std::move(parsed), openai_family, answer_openai);
}

api_call embed_texts(const http_call& call, gateway_state& facts) {
  return with_parsed(
      parse_embeddings(call.body, facts.config().request), openai_family, [](embedding_call asked) {
        generation_call out;
        out.requests = std::move(asked.requests);
        out.client_names = {{{"prompt", "input"}}};
        out.add_generation_prompt = false;
        out.whole = [model = std::move(asked.model), format = asked.format,
                     inputs = out.requests.size()](const std::string& opened) {
          return std::make_unique<embedding_reply>(model.empty() ? opened : model, format, inputs);
        };
        out.family = &openai_family;
        return out;
      });
}

} // namespace

constinit const api_family openai_family{"Error", openai_error_schema, refusal_reply,
                                         [](const error& e) { return error_reply(e); }};

result<void> settle_answer(openai_generate& call, const gateway_state& facts) {
  const auto card = find_model(*facts.look(), facts.config().model_aliases, call.request.model);
  if (!card) { // without tools admission decides
    return call.tools ? result<void>(card.error()) : result<void>();
  }
  return settle_answer(call, *card);
}

result<void> settle_answer(openai_generate& call, const model_card& card) {
  const auto ok = settle_reasoning(call, card);
  return ok && call.tools ? settle_calls(call, card.call_format) : ok;
}

generation_call open_prompts(openai_generate& call) {
  generation_call out;
  out.requests = std::move(call.further);
  out.requests.insert(out.requests.begin(), std::move(call.request));
  out.client_names.push_back(std::move(call.client_names));
  out.add_generation_prompt = call.add_generation_prompt;
  out.is_stream = call.shape.is_stream;
  return out;
}

result<void> resume_answer(const http_call& call, openai_generate& asked) {
  if (call.last_event_id.empty()) {
    return {};
  }
  if (!asked.shape.is_stream) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "only a stream can be continued: set 'stream'");
  }
  auto position = parse_position(call.last_event_id, /*choices=*/1);
  if (!position) {
    return position.error();
  }
  if (position->text_bytes.empty()) {
    return fail_param(errc::invalid_value, "Last-Event-ID",
                      "this is a place in a stream of another API");
  }
  asked.resume = *std::move(position);
  return {};
}

result<void> check_is_new(const http_call& call) {
  return call.last_event_id.empty() ? result<void>()
                                    : fail_param(errc::unsupported_parameter, "Last-Event-ID",
                                                 "only streams of /v1 can be resumed");
}

message_call tokenize_message(tokenize_call& call) {
  tokenize request;
  request.input = std::move(call.input);
  request.add_generation_prompt = call.add_generation_prompt;
  request.tools = std::move(call.tools);
  request.template_options = std::move(call.template_options);
  return {.request = std::move(request),
          .model = std::move(call.model),
          .client_names = std::move(call.client_names)};
}

bool is_placeholder(const gateway_state& facts, std::string_view model) {
  const auto& config = facts.config();
  if (!has_name(config.placeholder_models, model) || has_name(config.model_aliases, model)) {
    return false;
  }
  const auto now = facts.look();
  const auto& served = model_of(first_of(*now));
  return !now->pipelines.empty() && served != model &&
         std::all_of(now->pipelines.begin(), now->pipelines.end(),
                     [&](const pipeline_view& p) { return model_of(p) == served; });
}

std::span<const route_row> openai_routes() noexcept {
  using enum method_set;
  constexpr auto row = user_rows_of(&openai_family);
  static constexpr route_row rows[] = {
      row("/v1/models", get, list_models, {"The models that are served"}),
      row(model_prefix, get, describe_model, {"One of them, by its name or an alias"}),
      row("/v1/stream", socket, open_socket, {"Requests over a WebSocket"}),
      row("/v1/chat/completions", post, complete_chat,
          {"An answer to a conversation", chat_schema, json_media, event_media}),
      row("/v1/completions", post, complete_text,
          {"The continuation of a text", completions_schema, json_media, event_media}),
      row("/v1/embeddings", post, embed_texts, {"Texts as vectors of length 1", embeddings_schema}),
  };
  return rows;
}

} // namespace baton::gateway
