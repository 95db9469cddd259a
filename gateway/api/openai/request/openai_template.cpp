#include "gateway/api/openai/request/openai_template.hpp"

#include "gateway/base/json_text.hpp"

#include <algorithm>
#include <array>

namespace baton::gateway {
namespace {

// The reader has the member, so it exists; an error goes to the reader.
std::string member_text(field_reader& fields, std::string_view source, std::string_view name) {
  const std::array path{name};
  auto text = raw_member(source, path);
  if (!text) {
    fields.refuse(text.error());
    return {};
  }
  return *std::move(text);
}

std::string read_kwargs(field_reader& fields, std::string_view source) {
  constexpr std::string_view name = "chat_template_kwargs";
  const auto* value = fields.find(name);
  if (value && !value->is_object()) {
    fields.refuse_type(name, "an object", *value);
    return {};
  }
  return value && !value->empty() ? member_text(fields, source, name) : std::string();
}

std::string read_documents(field_reader& fields, std::string_view source) {
  constexpr std::string_view name = "documents";
  const auto* value = fields.find(name);
  if (!value) {
    return {};
  }
  const auto is_object = [](const json& each) { return each.is_object(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_object)) {
    fields.refuse_type(name, "an array of objects", *value);
    return {};
  }
  return value->empty() ? std::string() : member_text(fields, source, name);
}

} // namespace

special_tokens read_special_tokens(field_reader& fields, bool is_chat) {
  const bool adds = fields.boolean("add_special_tokens", !is_chat);
  if (adds == !is_chat) {
    return special_tokens::usual;
  }
  return adds ? special_tokens::added : special_tokens::omitted;
}

template_fields read_template_fields(field_reader& fields, std::string_view source) {
  template_fields out;
  out.options.kwargs = read_kwargs(fields, source);
  out.options.documents = read_documents(fields, source);
  out.options.continues_final = fields.boolean("continue_final_message", false);
  out.options.special = read_special_tokens(fields, /*is_chat=*/true);
  // No message follows one that stays open.
  out.add_generation_prompt = fields.boolean("add_generation_prompt", !out.options.continues_final);
  if (out.options.continues_final && out.add_generation_prompt) {
    fields.refuse(errc::invalid_value, "continue_final_message",
                  "'continue_final_message' and 'add_generation_prompt' exclude one another");
  }
  return out;
}

} // namespace baton::gateway
