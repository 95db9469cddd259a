#include "gateway/api/torchserve/torchserve_request.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/torchserve/torchserve_form.hpp"
#include "gateway/api/torchserve/torchserve_inputs.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace baton::gateway {
namespace {

constexpr std::string_view text_media = "text/plain";
constexpr std::string_view form_media = "application/x-www-form-urlencoded";
constexpr std::string_view parts_media = "multipart/form-data";

// TorchServe handlers' other names of the same parameters.
struct parameter_alias {
  const char* theirs;
  const char* ours;
};
constexpr std::array parameter_aliases{
    parameter_alias{"max_new_tokens", "max_tokens"}, // tp_llama, gpt_fast, inferentia2
    parameter_alias{"streaming", "stream"},          // trt_llm_handler
};

std::string media_of(std::string_view content_type) {
  auto media = lower(content_type.substr(0, content_type.find(';')));
  media.erase(std::remove(media.begin(), media.end(), ' '), media.end());
  return media;
}

bool looks_like_json(std::string_view text) noexcept {
  text = without_mark(text);
  const auto at = text.find_first_not_of(" \t\r\n");
  return at != text.npos && text[at] == '{';
}

struct read_input {
  std::string text;
  bool is_json = false;
};

result<read_input> input_of(const torchserve_body& body) {
  const auto media = media_of(body.content_type);
  auto field = worker_input_of(body);
  if (!field) {
    return field.error();
  }
  read_input in{std::move(field->value), false};
  if (text::utf8_valid_prefix(in.text) != in.text.size()) {
    return fail(errc::invalid_request, "the body is not UTF-8 text");
  }
  in.is_json = media == json_media || (media != text_media && looks_like_json(in.text));
  return in;
}

error refused(std::string_view param, std::string_view why) {
  return fail_param(errc::unsupported_parameter, param, "'{}' {}", param, why);
}

// Parameters allowed in {"params": {...}}, as in examples/LLM/llama/chat_app.
constexpr std::array<std::string_view, 13> lifted{"max_new_tokens",
                                                  "max_tokens",
                                                  "min_tokens",
                                                  "temperature",
                                                  "top_p",
                                                  "top_k",
                                                  "min_p",
                                                  "typical_p",
                                                  "seed",
                                                  "repetition_penalty",
                                                  "presence_penalty",
                                                  "frequency_penalty",
                                                  "ignore_eos"};

result<void> lift_params(json& body) {
  const auto it = body.find("params");
  if (it == body.end()) {
    return {};
  }
  const auto params = std::move(*it);
  body.erase(it);
  if (params.is_null()) {
    return {};
  }
  if (!params.is_object()) {
    return fail_param(errc::invalid_value, "params", "'params' must be an object");
  }
  for (const auto& [name, value] : params.items()) {
    if (std::find(lifted.begin(), lifted.end(), name) == lifted.end() || body.contains(name)) {
      return fail_param(errc::invalid_value, "params",
                        "'params' cannot have '{}': it allows {}, unless given beside it",
                        name.substr(0, 64), fmt::join(lifted, ", "));
    }
    body[name] = value;
  }
  return {};
}

result<void> check_alone(const openai_generate& call) {
  if (!call.further.empty()) {
    return refused("prompt", "as several is for /predictions/MODEL/1.0/v1/completions");
  }
  if (call.shape.best_of > 1) {
    return refused("best_of", "above 1 is for /predictions/MODEL/1.0/v1/completions");
  }
  if (call.request.terms.choices != 1) {
    return refused("n", "above 1 is for /predictions/MODEL/1.0/v1/completions");
  }
  if (call.shape.has_token_ids) {
    return refused("return_token_ids", "is for /predictions/MODEL/1.0/v1/completions");
  }
  if (call.shape.names_tokens_by_id) {
    return refused("return_tokens_as_token_ids", "is for /predictions/MODEL/1.0/v1/completions");
  }
  if (call.shape.includes_usage) {
    return refused("stream_options", "is for /predictions/MODEL/1.0/v1/completions");
  }
  return {};
}

result<void> check_resumable(const openai_generate& call) {
  if (call.request.is_resumable) {
    return refused("resumable", "is for streams at gateway.http: streams here cannot be resumed");
  }
  return {};
}

// Parses one prediction from an object. `source` is its text.
result<openai_generate> read_prediction(json body, std::string_view source, bool streams,
                                        const request_limits& limits) {
  if (auto ok = lift_params(body); !ok) {
    return ok.error();
  }
  field_names renamed;
  for (const auto& alias : parameter_aliases) {
    const auto it = body.find(alias.theirs);
    if (it == body.end() || it->is_null()) {
      body.erase(alias.theirs);
      continue;
    }
    if (const auto ours = body.find(alias.ours); ours != body.end() && !ours->is_null()) {
      return fail_param(errc::invalid_value, alias.theirs,
                        "'{}' and '{}' mean the same: send one of them", alias.theirs, alias.ours);
    }
    auto value = std::move(*it);
    body.erase(it);
    body[alias.ours] = std::move(value);
    renamed.push_back({alias.ours, alias.theirs});
  }
  if (auto& stream = body["stream"]; stream.is_null()) {
    stream = streams;
  }
  field_reader fields(body);
  auto call = read_generation(fields, source, openai_api::completions, limits);
  const auto is_limited = call ? refuse_no_limit(body, limits) : call.error();
  if (!is_limited) {
    return in_client_terms(renamed, is_limited.error());
  }
  if (auto ok = check_alone(*call); !ok) {
    return ok.error();
  }
  if (auto ok = check_resumable(*call); !ok) {
    return ok.error();
  }
  call->client_names.insert(call->client_names.begin(), renamed.begin(), renamed.end());
  return call;
}

torchserve_format format_for(bool is_json, std::string_view accept) {
  const auto wanted = lower(accept);
  const bool wants_json = wanted.find(json_media) != wanted.npos;
  const bool wants_text = wanted.find(text_media) != wanted.npos;
  if (wants_json != wants_text) {
    is_json = wants_json;
  }
  return is_json ? torchserve_format::json_value : torchserve_format::text;
}

result<openai_generate> read_instance(const json& instance, const request_limits& limits) {
  auto body = json::object();
  field_names names;
  if (instance.is_string()) {
    body["prompt"] = instance;
  } else if (instance.is_object()) {
    body = instance;
  } else {
    return fail_param(errc::invalid_value, "instances",
                      "an instance must be a text or an object, not {}", kind_of_json(instance));
  }
  if (const auto data = body.find("data"); data != body.end() && !body.contains("prompt")) {
    auto value = std::move(*data);
    body.erase(data);
    body["prompt"] = std::move(value);
    names.push_back({"prompt", "data"});
  }
  const auto source = json_text(body);
  auto call = read_prediction(std::move(body), source, /*streams=*/false, limits);
  if (!call) {
    return in_client_terms(names, call.error());
  }
  call->client_names.insert(call->client_names.begin(), names.begin(), names.end());
  if (call->shape.is_stream) {
    return refused("stream", "is for /predictions/MODEL: predictions come together");
  }
  if (call->shape.has_logprobs) {
    return refused("logprobs", "is for /predictions/MODEL: a prediction is a text");
  }
  if (call->request.terms.sampling.constraint) { // the order of a schema's members is not kept here
    return fail(errc::unsupported_parameter,
                "constraints on an answer are for /predictions/MODEL, not for 'instances'");
  }
  if (!call->shape.echo.empty()) {
    return refused("echo", "is for /predictions/MODEL");
  }
  return call;
}

} // namespace

// curl -d labels JSON a form; curl -T sets no type at all.
result<form_input> worker_input_of(const torchserve_body& body) {
  const auto media = media_of(body.content_type);
  if (media == parts_media) {
    return input_of_parts(body.content_type, body.text);
  }
  if (media != form_media) {
    return form_input{std::string(body.text), std::string(body.content_type), {}};
  }
  if (looks_like_json(body.text)) {
    return form_input{std::string(body.text), std::string(json_media), {}};
  }
  return input_of_form(body.text);
}

result<std::vector<form_field>> worker_inputs_of(const torchserve_body& body) {
  const auto media = media_of(body.content_type);
  if (media == parts_media) {
    return fields_of_parts(body.content_type, body.text);
  }
  const bool is_form = media == form_media;
  if (is_form && !looks_like_json(body.text)) {
    return fields_of_form(body.text);
  }
  const auto content_type = is_form ? json_media : body.content_type;
  return std::vector{form_field{"body", std::string(body.text), std::string(content_type)}};
}

result<torchserve_generate> parse_prediction(const torchserve_body& body,
                                             const request_limits& limits) {
  auto in = input_of(body);
  if (!in) {
    return in.error();
  }
  auto object = json::object();
  if (in->is_json) {
    auto parsed = parse_body(in->text, limits.json_depth_max);
    if (!parsed) {
      return parsed.error();
    }
    object = *std::move(parsed);
  } else if (in->text.empty()) {
    return fail(errc::invalid_request, "the body is empty: it must be a prompt");
  } else {
    object["prompt"] = in->text;
  }
  auto call =
      read_prediction(std::move(object), in->is_json ? in->text : "{}", body.can_stream, limits);
  if (!call) {
    return call.error();
  }
  if (!in->is_json) {
    call->client_names.push_back({"prompt", "data"});
  }
  torchserve_generate out{*std::move(call), format_for(in->is_json, body.accept)};
  out.call.shape.is_stream = out.call.shape.is_stream && body.can_stream;
  if (out.call.shape.has_logprobs && out.speaks == torchserve_format::text) {
    return refused("logprobs", "needs an answer in JSON: do not ask for text alone");
  }
  if (out.call.request.terms.sampling.prompt_logprobs >= 0) {
    return refused("echo", "with 'logprobs' or token ids is for OpenAI's routes");
  }
  return out;
}

result<torchserve_generate> parse_openai_prediction(openai_api api, const torchserve_body& body,
                                                    const request_limits& limits) {
  if (media_of(body.content_type).starts_with("multipart/")) {
    return fail(errc::unsupported_media_type, "the body must be JSON: application/json");
  }
  auto call = parse_generation(api, body.text, limits);
  if (!call) {
    return call.error();
  }
  if (auto ok = check_resumable(*call); !ok) {
    return ok.error();
  }
  return torchserve_generate{*std::move(call), torchserve_format::openai};
}

result<torchserve_batch> parse_instances(std::string_view body, const request_limits& limits) {
  const auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  const auto* instances = fields.require("instances");
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  const auto most = limits.choices_max; // each uses its own KV blocks
  if (!instances->is_array() || instances->empty() || instances->size() > most) {
    return fail_param(errc::invalid_value, "instances",
                      "'instances' must be an array of 1 to {} texts or objects", most);
  }
  torchserve_batch out;
  for (const auto& instance : *instances) {
    auto one = read_instance(instance, limits);
    if (!one) {
      return one.error();
    }
    out.requests.push_back(std::move(one->request));
    out.client_names.push_back(std::move(one->client_names));
  }
  return out;
}

} // namespace baton::gateway
