#include "gateway/api/openai/request/openai_request.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/openai/request/openai_template.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"

namespace baton::gateway {

result<openai_generate> parse_generation(openai_api api, std::string_view body,
                                         const request_limits& limits) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  return read_generation(fields, body, api, limits);
}

result<tokenize_call> read_tokenize(field_reader& fields, std::string_view source,
                                    const request_limits& limits) {
  static constexpr unsupported_field unsupported[] = {
      {"chat_template", ""},
      {"mm_processor_kwargs", ""},
      {"media_io_kwargs", ""},
      {"return_token_offsets", "false"},
  };
  tokenize_call out;
  out.model = read_model(fields);
  out.returns_pieces = fields.boolean("return_token_strs", false);
  const bool is_chat = fields.find("messages") != nullptr;
  const bool is_text = fields.find("prompt") != nullptr;
  if (is_chat == is_text) {
    fields.refuse(errc::invalid_request, "prompt", "send one of 'prompt' and 'messages'");
  } else if (is_chat) {
    out.input = read_messages(fields, limits);
    auto of_template = read_template_fields(fields, source);
    out.template_options = std::move(of_template.options);
    out.add_generation_prompt = of_template.add_generation_prompt;
    if (auto tools = read_tools(fields, source, limits)) {
      out.tools = std::move(tools->text);
    }
  } else {
    out.input = fields.text("prompt", {}, limits::prompt_bytes_max);
    out.template_options.special = read_special_tokens(fields, /*is_chat=*/false);
  }
  if (auto ok = fields.finish(unsupported); !ok) {
    return ok.error();
  }
  return out;
}

result<tokenize_call> parse_tokenize(std::string_view body, const request_limits& limits) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  return read_tokenize(fields, body, limits);
}

result<detokenize_call> read_detokenize(field_reader& fields, const request_limits& limits) {
  detokenize_call out;
  out.model = read_model(fields);
  if (const auto* ids = fields.require("tokens")) {
    out.ids = read_ids(fields, "tokens", *ids, limits.prompt_ids_max);
  }
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  return out;
}

result<detokenize_call> parse_detokenize(std::string_view body, const request_limits& limits) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  return read_detokenize(fields, limits);
}

} // namespace baton::gateway
