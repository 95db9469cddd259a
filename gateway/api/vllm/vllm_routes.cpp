#include "gateway/api/vllm/vllm_routes.hpp"

#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/state/gateway_state.hpp"

#include <utility>

namespace baton::gateway {
namespace {

api_call tokenize_text(const http_call& call, gateway_state& facts) {
  return with_parsed(parse_tokenize(call.body, facts.config().request), openai_family,
                     [](tokenize_call asked) {
                       auto out = tokenize_message(asked);
                       out.writer = write_message<tokenized>(
                           [returns_pieces = asked.returns_pieces](const tokenized& answer) {
                             return json_reply(tokenize_body(answer, returns_pieces));
                           });
                       out.family = &openai_family;
                       return out;
                     });
}

api_call detokenize_ids(const http_call& call, gateway_state& facts) {
  return with_parsed(parse_detokenize(call.body, facts.config().request), openai_family,
                     [](detokenize_call asked) {
                       message_call out;
                       out.request.emplace<detokenize>().ids = std::move(asked.ids);
                       out.model = std::move(asked.model);
                       out.writer = write_message<detokenized>([](const detokenized& answer) {
                         return json_reply(detokenize_body(answer));
                       });
                       out.family = &openai_family;
                       return out;
                     });
}

// A body without `prompt` is another API's.
std::optional<api_call> generate_text(const http_call& call, gateway_state& facts) {
  auto parsed = parse_vllm_generate(call.body, facts.config().request);
  if (!parsed) {
    return std::nullopt;
  }
  if (auto ok = check_is_new(call); !ok) {
    return error_reply(ok.error());
  }
  return with_parsed(*std::move(parsed), openai_family, [](vllm_generate asked) {
    const auto shared = std::make_shared<const vllm_generate>(std::move(asked));
    generation_call out;
    out.requests = {shared->request};
    out.client_names = {shared->client_names};
    out.is_stream = shared->is_stream;
    out.event_type = line_media;
    out.whole = [shared](const std::string&) { return std::make_unique<vllm_unary>(*shared); };
    out.events = [shared](const std::string&, const reply_identity&) {
      return std::make_unique<vllm_lines>(*shared);
    };
    out.family = &openai_family;
    return out;
  });
}

// The fields of completions, except those that have no place in the answer.
nlohmann::ordered_json generate_schema(const gateway_config& config) {
  auto vllm = completions_schema(config);
  for (const auto* name : {"echo", "logprobs", "best_of", "stream_options", "resumable"}) {
    vllm["properties"].erase(name);
  }
  vllm["properties"]["prompt"] = type_schema("string");
  return vllm;
}

} // namespace

std::span<const route_row> vllm_routes() noexcept {
  constexpr auto user = route_access::user;
  static constexpr route_row rows[] = {
      {.path = "/tokenize",
       .methods = method_set::post,
       .access = user,
       .family = &openai_family,
       .handler = tokenize_text,
       .doc = {"A text or a conversation as token ids", tokenize_schema}},
      {.path = "/detokenize",
       .methods = method_set::post,
       .access = user,
       .family = &openai_family,
       .handler = detokenize_ids,
       .doc = {"Token ids as a text", detokenize_schema}},
      {.path = "/generate",
       .methods = method_set::post,
       .access = user,
       .family = &openai_family,
       .doc = {.summary = "of vLLM's body a list, or a line for each piece",
               .body = generate_schema,
               .or_media = line_media},
       .claim = generate_text},
  };
  return rows;
}

} // namespace baton::gateway
