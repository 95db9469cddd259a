// Bounds that API servers check before they build messages from a request: the codec's.
#include "schema/limits.hpp"

#include "schema/finite_fields.hpp"

#include <cmath>

namespace baton {
namespace {

error too_large(std::string_view param, std::size_t is, std::size_t may) {
  return fail_param(errc::payload_too_large, param, "{} has {} bytes, at most {} are possible",
                    param, is, may);
}

error too_many(std::string_view param, std::size_t is, std::size_t may) {
  return fail_param(errc::invalid_value, param, "{} has {} entries, at most {} are possible", param,
                    is, may);
}

result<void> check(const std::string& text) {
  if (text.size() > limits::prompt_bytes_max)
    return too_large("prompt", text.size(), limits::prompt_bytes_max);
  return {};
}

result<void> check(const ids_prompt& ids) {
  if (ids.size() > limits::ids_max)
    return too_many("prompt", ids.size(), limits::ids_max);
  return {};
}

std::size_t bytes_of(const chat_prompt& messages) {
  std::size_t bytes = 0;
  for (const auto& m : messages)
    bytes += m.content.size() + m.tool_calls.size() + m.tool_call_id.size();
  return bytes;
}

result<void> check(const chat_prompt& messages) {
  if (messages.size() > limits::chat_messages_max)
    return too_many("messages", messages.size(), limits::chat_messages_max);
  for (const auto& message : messages) {
    if (message.role.size() > limits::name_bytes_max ||
        message.name.size() > limits::name_bytes_max ||
        message.tool_call_id.size() > limits::name_bytes_max)
      return fail_param(errc::invalid_value, "messages",
                        "a role, name or tool_call_id has over {} bytes", limits::name_bytes_max);
  }
  if (const auto bytes = bytes_of(messages); bytes > limits::prompt_bytes_max)
    return too_large("messages", bytes, limits::prompt_bytes_max);
  return {};
}

} // namespace

result<void> check_limits(const prompt& input) {
  return std::visit([](const auto& form) { return check(form); }, input);
}

result<void> check_limits(const sampling_params& s) {
  result<void> finite;
  for_each_finite(s, [&finite](std::string_view name, float value) {
    if (finite && !std::isfinite(value))
      finite = fail_param(errc::invalid_value, name, "{} must be a finite number", name);
  });
  if (!finite)
    return finite;
  if (s.logprobs > static_cast<std::int32_t>(limits::top_logprobs_max))
    return fail_param(errc::invalid_value, "top_logprobs", "top_logprobs is {}, at most {}",
                      s.logprobs, limits::top_logprobs_max);
  if (s.prompt_logprobs > static_cast<std::int32_t>(limits::prompt_logprobs_max))
    return fail_param(errc::invalid_value, "prompt_logprobs", "prompt_logprobs is {}, at most {}",
                      s.prompt_logprobs, limits::prompt_logprobs_max);
  if (s.biases.size() > limits::biases_max)
    return too_many("logit_bias", s.biases.size(), limits::biases_max);
  for (const auto& bias : s.biases)
    if (!std::isfinite(bias.bias))
      return fail_param(errc::invalid_value, "logit_bias", "the bias of token {} is not finite",
                        bias.token);
  if (s.constraint && s.constraint->text.size() > limits::constraint_bytes_max)
    return fail_param(errc::invalid_value, "structured_outputs",
                      "a constraint has {} bytes, at most {}", s.constraint->text.size(),
                      limits::constraint_bytes_max);
  return {};
}

result<void> check_limits(const stopping& stop) {
  if (stop.stop_ids.size() > limits::stop_ids_max)
    return too_many("stop_token_ids", stop.stop_ids.size(), limits::stop_ids_max);
  if (stop.stop_texts.size() > limits::stop_texts_max)
    return too_many("stop", stop.stop_texts.size(), limits::stop_texts_max);
  for (const auto& text : stop.stop_texts)
    if (text.size() > limits::stop_bytes_max)
      return fail_param(errc::invalid_value, "stop", "a stop string has {} bytes, at most {}",
                        text.size(), limits::stop_bytes_max);
  return {};
}

namespace {

// Upper bound of a table, its offsets and its texts' lengths, without the texts themselves.
constexpr std::size_t part_bytes = 96;
constexpr std::size_t whole_bytes = 256;

std::size_t bytes_of(const std::vector<tensor>& tensors) noexcept {
  std::size_t bytes = tensors.size() * part_bytes;
  for (const auto& t : tensors)
    bytes +=
        t.name.size() + t.datatype.size() + t.shape.size() * sizeof(std::int64_t) + t.data.size();
  return bytes;
}

std::size_t bytes_of(const std::vector<header_field>& headers) noexcept {
  std::size_t bytes = headers.size() * part_bytes;
  for (const auto& h : headers)
    bytes += h.name.size() + h.value.size();
  return bytes;
}

result<void> check_name(std::string_view param, const std::string& name) {
  if (name.size() > limits::name_bytes_max)
    return fail_param(errc::invalid_value, param, "{} has at most {} bytes", param,
                      limits::name_bytes_max);
  return {};
}

result<void> check(std::string_view param, const std::vector<tensor>& tensors) {
  if (tensors.size() > limits::tensors_max)
    return too_many(param, tensors.size(), limits::tensors_max);
  for (const auto& t : tensors) {
    if (t.name.size() > limits::name_bytes_max || t.datatype.size() > limits::name_bytes_max)
      return fail_param(errc::invalid_value, param, "a name or datatype has over {} bytes",
                        limits::name_bytes_max);
    if (t.shape.size() > limits::dimensions_max)
      return fail_param(errc::invalid_value, param, "'{}' has {} dimensions, at most {}", t.name,
                        t.shape.size(), limits::dimensions_max);
  }
  return {};
}

result<void> check(const std::vector<header_field>& headers) {
  if (headers.size() > limits::headers_max)
    return too_many("headers", headers.size(), limits::headers_max);
  for (const auto& h : headers)
    if (h.name.size() > limits::name_bytes_max || h.value.size() > limits::header_bytes_max)
      return fail_param(errc::invalid_value, "headers", "a header has over {} bytes",
                        limits::header_bytes_max);
  return {};
}

// Checks common to requests and answer pieces.
template <class M>
result<void> check_parts(const M& m) {
  if (auto ok = check_name("content_type", m.content_type); !ok)
    return ok;
  if (auto ok = check(m.headers); !ok)
    return ok;
  if (m.parameters.size() > limits::parameters_bytes_max)
    return too_large("parameters", m.parameters.size(), limits::parameters_bytes_max);
  if (const auto bytes = baton::bytes_of(m); bytes > limits::infer_bytes_max)
    return too_large("body", bytes, limits::infer_bytes_max);
  return {};
}

} // namespace

std::size_t bytes_of(const infer& m) noexcept {
  std::size_t bytes = whole_bytes + m.model.size() + m.version.size() + bytes_of(m.inputs) +
                      m.body.size() + m.content_type.size() + bytes_of(m.headers) +
                      m.parameters.size() + m.request_id.size();
  for (const auto& name : m.outputs)
    bytes += part_bytes + name.size();
  return bytes;
}

std::size_t bytes_of(const inferred& m) noexcept {
  return whole_bytes + bytes_of(m.outputs) + m.body.size() + m.content_type.size() +
         bytes_of(m.headers) + m.parameters.size();
}

result<void> check_limits(const infer& m) {
  if (auto ok = check_name("model", m.model); !ok)
    return ok;
  if (auto ok = check_name("version", m.version); !ok)
    return ok;
  if (auto ok = check_name("id", m.request_id); !ok)
    return ok;
  if (m.deadline.count() < 0 || m.deadline > limits::duration_max)
    return fail_param(errc::invalid_value, "timeout", "timeout must be in [0, {}] ms",
                      limits::duration_max.count());
  if (auto ok = check("inputs", m.inputs); !ok)
    return ok;
  if (m.outputs.size() > limits::tensors_max)
    return too_many("outputs", m.outputs.size(), limits::tensors_max);
  for (const auto& name : m.outputs)
    if (auto ok = check_name("outputs", name); !ok)
      return ok;
  return check_parts(m);
}

result<void> check_limits(const inferred& m) {
  if (auto ok = check("outputs", m.outputs); !ok)
    return ok;
  return check_parts(m);
}

namespace {

// An embedding has exactly one choice and no token options.
result<void> check_embedding(const generate& request) {
  const char* param = request.terms.choices != 1                    ? "n"
                      : request.is_resumable                        ? "resumable"
                      : request.terms.sampling.constraint           ? "structured_outputs"
                      : request.terms.sampling.logprobs >= 0        ? "logprobs"
                      : request.terms.sampling.prompt_logprobs >= 0 ? "prompt_logprobs"
                      : request.terms.wants_prompt_ids              ? "return_token_ids"
                      : !request.tools.empty()                      ? "tools"
                                                                    : nullptr;
  if (!request.terms.wants_embedding || param == nullptr)
    return {};
  return fail_param(errc::unsupported_parameter, param, "an embedding is made without '{}'", param);
}

} // namespace

namespace {

// Inputs of a chat template count as part of the prompt.
result<void> check_template(const prompt& input, std::string_view tools,
                            const template_options& options) {
  const auto* chat = std::get_if<chat_prompt>(&input);
  auto bytes = chat ? bytes_of(*chat) : 0;
  for (const auto& [param, text] : {std::pair<std::string_view, std::string_view>{"tools", tools},
                                    {"documents", options.documents},
                                    {"chat_template_kwargs", options.kwargs}}) {
    bytes += text.size();
    if (!text.empty() && bytes > limits::prompt_bytes_max)
      return too_large(param, bytes, limits::prompt_bytes_max);
  }
  return {};
}

} // namespace

result<void> check_limits(const tokenize& question) {
  if (auto r = check_limits(question.input); !r)
    return r;
  return check_template(question.input, question.tools, question.template_options);
}

result<void> check_limits(const generate& request) {
  if (request.model.size() > limits::name_bytes_max)
    return fail_param(errc::model_not_found, "model", "a model name has at most {} bytes",
                      limits::name_bytes_max);
  if (request.terms.choices == 0 || request.terms.choices > limits::choices_max)
    return fail_param(errc::invalid_value, "n", "n must be in [1, {}], not {}", limits::choices_max,
                      request.terms.choices);
  if (request.terms.deadline.count() < 0 || request.terms.deadline > limits::duration_max)
    return fail_param(errc::invalid_value, "timeout", "timeout must be in [0, {}] ms",
                      limits::duration_max.count());
  if (request.terms.cache_salt.size() > limits::name_bytes_max)
    return fail_param(errc::invalid_value, "cache_salt", "a cache_salt has at most {} bytes",
                      limits::name_bytes_max);
  if (request.request_id.size() > limits::name_bytes_max)
    return fail_param(errc::invalid_value, "request_id", "a request_id has at most {} bytes",
                      limits::name_bytes_max);
  if (auto ok = check_embedding(request); !ok)
    return ok;
  if (auto r = check_limits(request.input); !r)
    return r;
  if (auto r = check_template(request.input, request.tools, request.template_options); !r)
    return r;
  if (auto r = check_limits(request.terms.sampling); !r)
    return r;
  return check_limits(request.terms.stop);
}

} // namespace baton
