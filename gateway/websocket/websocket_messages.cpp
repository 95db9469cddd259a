#include "gateway/websocket/websocket_messages.hpp"

#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/refusal.hpp"
#include "runtime/text/stream/reasoning_style.hpp"

#include <iterator>

namespace baton::gateway {
namespace {

constexpr std::int64_t index_max = UINT32_MAX;

// The marks around the reasoning, with the first tokens of an answer.
void append_marks(std::string& out, const chunk& c) {
  const auto& row = text::row_of(c.reasoning);
  nlohmann::ordered_json marks{
      {"open", row.open}, {"close", row.close}, {"begun", c.begins_in_reasoning}};
  if (row.has_channels) {
    marks["next"] = row.next;
    marks["answer"] = row.answer;
  }
  out += R"(,"reasoning":)" + json_text(marks);
}

std::optional<std::uint32_t> read_window(field_reader& fields) {
  const auto tokens = fields.integer("window", 0, 1, index_max);
  return tokens == 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(tokens));
}

std::string read_id(field_reader& fields, const websocket_limits& limits) {
  const auto* value = fields.require("id");
  auto id = fields.text("id", {}, limits.id_bytes_max);
  if (value && value->is_string() && value->get_ref<const std::string&>().empty()) {
    fields.refuse(errc::invalid_value, "id", "'id' must not be empty");
  }
  return id;
}

// A start message is the body of /v1/chat/completions (with messages) or /v1/completions (with
// prompt), plus the socket's own fields.
result<socket_message> read_start(field_reader& fields, const std::string& id, const json& object,
                                  std::string_view text, const gateway_config& config) {
  socket_start start;
  start.id = id;
  start.window = read_window(fields);
  const auto api = object.contains("messages") ? openai_api::chat : openai_api::completions;
  auto call = read_generation(fields, text, api, config.request);
  if (!call) {
    return call.error();
  }
  // The messages carry the text of all choices as it is generated, with its reasoning.
  const auto& thinking = call->reasoning.param;
  const char* whole_only = call->tools                       ? "tools"
                           : call->shape.best_of != 0        ? "best_of"
                           : !call->shape.echo.empty()       ? "echo"
                           : call->shape.has_token_ids       ? "return_token_ids"
                           : call->shape.names_tokens_by_id  ? "return_tokens_as_token_ids"
                           : !call->shape.includes_reasoning ? "include_reasoning"
                           : !thinking.empty()               ? thinking.c_str()
                                                             : nullptr;
  if (whole_only) {
    return fail_param(errc::unsupported_parameter, whole_only,
                      "'{}' is not supported on a WebSocket: send the request over HTTP",
                      whole_only);
  }
  if (call->shape.prompts > 1) {
    return fail_param(errc::unsupported_parameter, "prompt",
                      "several prompts are not supported on a WebSocket: send a 'start' for each");
  }
  start.call = *std::move(call);
  return socket_message(std::move(start));
}

// `from`: a number, or one per choice.
std::vector<std::uint32_t> read_indices(field_reader& fields) {
  const auto* value = fields.require("from");
  if (!value || !value->is_array()) {
    return {static_cast<std::uint32_t>(fields.integer("from", 0, 0, index_max))};
  }
  std::vector<std::uint32_t> out;
  for (const auto& one : *value) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > index_max) {
      fields.refuse(errc::invalid_value, "from", "'from' must hold numbers of tokens");
      return {};
    }
    out.push_back(one.get<std::uint32_t>());
  }
  return out;
}

result<socket_message> read_resume(field_reader& fields, const std::string& id,
                                   const gateway_config& config) {
  socket_resume resume;
  resume.id = id;
  resume.window = read_window(fields);
  resume.model = read_model(fields);
  fields.require("resume");
  const auto name = fields.text("resume", {}, config.websocket.id_bytes_max);
  const auto from = read_indices(fields);
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  if (from.empty() || from.size() > config.request.choices_max) {
    return fail_param(errc::invalid_value, "from", "'from' must have 1 to {} numbers, not {}",
                      config.request.choices_max, from.size());
  }
  auto position = parse_position(fmt::format("{}:{}", name, fmt::join(from, ",")),
                                 static_cast<std::uint32_t>(from.size()));
  if (!position) {
    return fail_param(errc::invalid_value, "resume", "'resume' must be the value from 'granted'");
  }
  resume.position = *std::move(position);
  return socket_message(std::move(resume));
}

result<socket_message> read_message(field_reader& fields, const std::string& id, const json& object,
                                    std::string_view text, const gateway_config& config) {
  const auto* type = fields.require("type");
  if (type && !type->is_string()) {
    fields.refuse_type("type", "a string", *type);
  }
  if (fields.has_failed()) {
    return fields.finish().error();
  }
  const auto& name = type->get_ref<const std::string&>();
  if (name == "start") {
    return read_start(fields, id, object, text, config);
  }
  if (name == "resume") {
    return read_resume(fields, id, config);
  }
  if (name == "cancel") {
    if (auto ok = fields.finish(); !ok) {
      return ok.error();
    }
    return socket_message(socket_cancel{id});
  }
  if (name == "ack") {
    socket_ack ack;
    ack.id = id;
    fields.require("index");
    ack.index = static_cast<std::uint32_t>(fields.integer("index", 0, 0, index_max));
    ack.choice = static_cast<std::uint32_t>(fields.integer("choice", 0, 0, index_max));
    ack.window = read_window(fields);
    if (auto ok = fields.finish(); !ok) {
      return ok.error();
    }
    return socket_message(ack);
  }
  return fail_param(errc::invalid_value, "type",
                    "'type' must be one of 'start', 'resume', 'cancel', 'ack'");
}

std::string begin(std::string_view type, std::string_view id) {
  auto out = fmt::format(R"({{"type":"{}","id":)", type);
  if (id.empty()) {
    out += "null";
  } else {
    append_json_string(out, id);
  }
  return out;
}

// `body`: {"error":{...}}
std::string error_around(std::string_view id, std::string_view body) {
  auto out = begin("error", id);
  out += ',';
  out += body.substr(1); // without its opening brace
  return out;
}

void append_choice(std::string& out, const chunk& c, const reply_shape& shape) {
  if (shape.choices > 1) {
    fmt::format_to(std::back_inserter(out), R"(,"choice":{})", c.choice);
  }
}

} // namespace

std::variant<socket_message, socket_mistake> parse_socket_message(std::string_view text,
                                                                  const gateway_config& config) {
  auto parsed = parse_json(text, config.request.json_depth_max);
  if (!parsed) {
    return socket_mistake{parsed.error(), {}, false};
  }
  if (!parsed->is_object()) {
    return socket_mistake{fail(errc::invalid_request, "a message must be a JSON object, not {}",
                               kind_of_json(*parsed)),
                          {},
                          false};
  }
  field_reader fields(*parsed);
  const auto id = read_id(fields, config.websocket);
  auto message = read_message(fields, id, *parsed, text, config);
  if (!message) {
    return socket_mistake{message.error(), id, true};
  }
  return *std::move(message);
}

std::string granted_text(std::string_view id, const granted& grant) {
  auto out = begin("granted", id);
  fmt::format_to(std::back_inserter(out), R"(,"ticket":{},"resume":")", grant.ticket.value);
  append_position(out, {grant.ticket, grant.resume_key, {}});
  return out + "\"}";
}

std::string tokens_text(std::string_view id, const chunk& c, const reply_shape& shape) {
  auto out = begin("tokens", id);
  append_choice(out, c, shape);
  fmt::format_to(std::back_inserter(out), R"(,"index":{},"count":{},"text":)", c.index, c.count);
  append_json_string(out, c.text);
  if (c.reasoning != reasoning_format::none && c.index == c.count) {
    append_marks(out, c);
  }
  if (shape.has_logprobs && !c.details.empty()) {
    out += R"(,"logprobs":)";
    out += json_text(logprobs_of({openai_api::chat}, c.details, 0));
  }
  out += '}';
  return out;
}

std::string done_text(std::string_view id, const chunk& c, const reply_shape& shape, bool is_last) {
  auto out = begin("done", id);
  append_choice(out, c, shape);
  fmt::format_to(
      std::back_inserter(out),
      R"(,"finish_reason":"{}","usage":{{"prompt_tokens":{},"completion_tokens":{},)"
      R"("total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}},"last":{}}})",
      finish_name(c.finish), c.prompt_tokens, c.output_tokens,
      std::uint64_t{c.prompt_tokens} + c.output_tokens, c.cached_tokens, is_last);
  return out;
}

std::string socket_error_text(std::string_view id, const error& e) {
  return error_around(id, error_body(e));
}

std::string socket_refusal_text(std::string_view id, const rejected& no) {
  return error_around(id, refusal_body(no));
}

} // namespace baton::gateway
