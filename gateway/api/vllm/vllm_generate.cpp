#include "gateway/api/vllm/vllm_generate.hpp"

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/ensure.hpp"

namespace baton::gateway {
namespace {

std::string line_of(const std::vector<std::string>& texts) {
  std::string line = R"({"text":[)";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    line += i == 0 ? "" : ",";
    append_json_string(line, texts[i]);
  }
  return line + "]}";
}

// Parameters of completions that have no effect here, or that need fields which the stream lacks.
const char* name_without_effect(const openai_generate& call) {
  return !call.shape.echo.empty()    ? "echo"
         : call.shape.has_logprobs   ? "logprobs"
         : call.shape.has_token_ids  ? "return_token_ids"
         : call.shape.best_of != 0   ? "best_of"
         : call.shape.includes_usage ? "stream_options"
         : call.request.is_resumable ? "resumable"
                                     : nullptr;
}

result<vllm_generate> read(const json& parsed, std::string_view body,
                           const request_limits& limits) {
  if (!parsed["prompt"].is_string()) {
    return fail_param(errc::invalid_value, "prompt",
                      "'prompt' must be a string, not {}: /v1/completions takes ids and several "
                      "prompts",
                      kind_of_json(parsed["prompt"]));
  }
  field_reader fields(parsed);
  auto call = read_generation(fields, body, openai_api::completions, limits);
  if (!call) {
    return call.error();
  }
  if (auto ok = refuse_no_limit(parsed, limits); !ok) {
    return ok.error();
  }
  if (const auto* name = name_without_effect(*call)) {
    return fail_param(errc::unsupported_parameter, name,
                      "'{}' is not supported by /generate: use /v1/completions", name);
  }
  vllm_generate out;
  out.prompt = std::get<std::string>(call->request.input);
  out.request = std::move(call->request);
  out.is_stream = call->shape.is_stream;
  out.client_names = std::move(call->client_names);
  return out;
}

} // namespace

std::optional<result<vllm_generate>> parse_vllm_generate(std::string_view body,
                                                         const request_limits& limits) {
  if (body.find("\"prompt\"") == body.npos) {
    return std::nullopt;
  }
  const auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed || !parsed->contains("prompt")) {
    return std::nullopt;
  }
  return read(*parsed, body, limits);
}

void vllm_unary::add(chunk c) {
  ENSURE(c.choice < texts_.size(), "chunk of choice {} of {}", c.choice, texts_.size());
  texts_[c.choice] += c.text;
  choices_left_ -= c.finish != finish::none ? 1 : 0;
}

http_reply vllm_unary::reply(const reply_identity& /*who*/, const reply_times& /*when*/) const {
  http_reply r;
  r.body = line_of(texts_);
  return r;
}

void vllm_lines::add(const chunk& c, std::string& out) {
  ENSURE(c.choice < texts_.size(), "chunk of choice {} of {}", c.choice, texts_.size());
  if (has_ended_) {
    return;
  }
  texts_[c.choice] += c.text;
  choices_left_ -= c.finish != finish::none ? 1 : 0;
  has_ended_ = choices_left_ == 0;
  if (c.text.empty() && !has_ended_) {
    return;
  }
  if (line_end_ > 0 && out.size() == line_end_) { // not sent yet
    out.resize(line_begin_);
  }
  line_begin_ = out.size();
  out += line_of(texts_);
  out += '\n';
  line_end_ = out.size();
}

void vllm_lines::fail(const error& e, std::string& out) {
  if (has_ended_) {
    return;
  }
  has_ended_ = true;
  out += error_body(e);
  out += '\n';
}

} // namespace baton::gateway
