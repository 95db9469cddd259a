#include "gateway/api/openai/request/embedding_request.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/api/openai/request/openai_prompts.hpp"
#include "gateway/api/openai/request/openai_template.hpp"

#include <limits>

namespace baton::gateway {
namespace {

constexpr std::size_t format_bytes_max = 64;

// Further fields of vLLM's body, and the value that has no effect.
constexpr unsupported_field unsupported_in_embeddings[] = {
    {"dimensions", ""},          {"truncate_prompt_tokens", ""}, {"additional_data", ""},
    {"messages", "", "input"},   {"normalize", "true"},          {"embed_dtype", "\"float32\""},
    {"stream", "false"},         {"resumable", "false"},         {"request_id", ""},
    {"use_activation", "true"},  {"endianness", "\"native\""},   {"endianness", "\"little\""},
    {"truncation_side", ""},     {"chat_template", ""},          {"chat_template_kwargs", ""},
    {"mm_processor_kwargs", ""}, {"media_io_kwargs", ""},
};

embedding_format read_format(field_reader& fields) {
  const auto format_name = fields.text("encoding_format", "float", format_bytes_max);
  if (format_name == "base64") {
    return embedding_format::base64;
  }
  if (format_name != "float") {
    fields.refuse(errc::invalid_value, "encoding_format",
                  "'encoding_format' must be 'float' or 'base64'");
  }
  return embedding_format::numbers;
}

} // namespace

result<embedding_call> read_embeddings(field_reader& fields, const request_limits& limits) {
  embedding_call out;
  out.model = read_model(fields);
  auto inputs = read_prompts(fields, "input", limits);
  out.format = read_format(fields);
  fields.text("user", {}, label_bytes_max);
  generate one;
  one.model = out.model;
  one.terms.wants_embedding = true;
  one.terms.stop.max_tokens = 1; // no token is generated
  one.terms.max_tokens_given = true;
  one.terms.cache_salt = fields.text("cache_salt", {}, salt_bytes_max);
  one.priority = static_cast<std::int32_t>(
      fields.integer("priority", 0, std::numeric_limits<std::int32_t>::min(),
                     std::numeric_limits<std::int32_t>::max()));
  one.template_options.special = read_special_tokens(fields, /*is_chat=*/false);
  for (auto& input : inputs) {
    const auto* ids = std::get_if<ids_prompt>(&input);
    if (ids && ids->empty()) {
      fields.refuse(errc::invalid_value, "input", "'input' has no token ids");
    }
    one.input = std::move(input);
    out.requests.push_back(one);
  }
  if (auto ok = fields.finish(unsupported_in_embeddings); !ok) {
    return ok.error();
  }
  return out;
}

result<embedding_call> parse_embeddings(std::string_view body, const request_limits& limits) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  return read_embeddings(fields, limits);
}

} // namespace baton::gateway
