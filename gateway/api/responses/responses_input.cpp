#include "gateway/api/responses/responses_input.hpp"

#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/request/translated_fields.hpp"
#include "runtime/text/unicode/base64.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::size_t name_bytes_max = 256; // types, roles, ids
constexpr std::size_t name_shown_bytes_max = 64;

constexpr std::string_view encrypted_mark = "baton.";

class item_reader {
public:
  item_reader(field_reader& item, std::string path, const request_limits& limits)
      : item_(item), path_(std::move(path)), limits_(limits) {}

  chat_message read() {
    const auto type = item_.text("type", "message", name_bytes_max);
    if (type == "message") {
      read_message();
    } else if (type == "function_call") {
      read_call();
    } else if (type == "function_call_output") {
      read_output();
    } else if (type == "reasoning") {
      read_thought();
    } else {
      item_.refuse(errc::unsupported_parameter, "type",
                   fmt::format("items of the type '{}' are not supported by this server",
                               type.substr(0, name_shown_bytes_max)));
    }
    return std::move(out_);
  }

private:
  void read_message() {
    static constexpr std::array roles{"user", "assistant", "system", "developer"};
    const auto role = item_.text("role", {}, name_bytes_max);
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      item_.refuse(errc::invalid_value, "role",
                   "a role must be one of 'user', 'assistant', 'system', 'developer'");
    }
    out_.role = role == "developer" ? "system" : role;
    out_.content = read_content("content");
  }

  // An item of an earlier answer. Its summary is not read: this server writes none. Nor is the
  // encrypted content of other servers, which only they can read.
  void read_thought() {
    out_.role = "assistant";
    item_.find("summary");
    const auto encrypted = item_.text("encrypted_content", {}, limits::prompt_bytes_max);
    const auto* content = item_.find("content");
    if (!content || (content->is_array() && content->empty())) {
      if (encrypted.starts_with(encrypted_mark)) {
        read_encrypted(std::string_view(encrypted).substr(encrypted_mark.size()));
      }
      return;
    }
    if (!content->is_array()) {
      item_.refuse_type("content", "an array of texts", *content);
      return;
    }
    for (const auto& part : *content) {
      const auto text = part.is_object() ? part.find("text") : part.end();
      if (text == part.end() || !text->is_string()) {
        item_.refuse_type("content", "an array of texts", *content);
        return;
      }
      out_.reasoning += text->get_ref<const std::string&>();
    }
  }

  void read_encrypted(std::string_view encoded) {
    auto text = text::bytes_of_base64(encoded);
    if (!text || text::utf8_valid_prefix(*text) != text->size()) {
      item_.refuse(errc::invalid_value, "encrypted_content",
                   "'encrypted_content' is not what this server has sent");
      return;
    }
    out_.reasoning = *std::move(text);
  }

  std::string read_content(const char* name) {
    const auto* content = item_.require(name);
    if (!content) {
      return {};
    }
    if (content->is_string()) {
      return content->get<std::string>();
    }
    if (!content->is_array()) {
      item_.refuse_type(name, "a string or an array of text parts", *content);
      return {};
    }
    std::string text;
    for (std::size_t i = 0; i < content->size(); ++i) {
      text += i == 0 ? "" : "\n"; // as in a chat
      text += read_part((*content)[i], fmt::format("{}[{}]", name, i));
    }
    return text;
  }

  std::string read_part(const json& value, const std::string& name) {
    if (!value.is_object()) {
      item_.refuse_type(name, "an object", value);
      return {};
    }
    field_reader part(value, path_ + name + ".");
    const auto type = part.text("type", {}, name_bytes_max);
    if (type != "input_text" && type != "output_text") {
      part.refuse(errc::unsupported_parameter, "type",
                  fmt::format("'{}{}.type' must be 'input_text' or 'output_text': this server "
                              "reads no '{}'",
                              path_, name, type.substr(0, name_shown_bytes_max)));
    }
    const auto* text = part.require("text");
    if (text && !text->is_string()) {
      part.refuse_type("text", "a string", *text);
    }
    if (auto ok = part.finish({}, object_kind::part); !ok) {
      item_.refuse(ok.error());
      return {};
    }
    return text->get<std::string>();
  }

  json member(const char* name) {
    const auto* value = item_.find(name);
    return value ? *value : json();
  }

  // In the format of a chat message.
  void read_call() {
    out_.role = "assistant";
    const json function{{"name", member("name")}, {"arguments", member("arguments")}};
    const json call{{"id", member("call_id")}, {"type", "function"}, {"function", function}};
    const json chat{{"tool_calls", json::array({call})}};
    field_reader message(chat, path_);
    read_calls_of(message, path_, limits_, out_);
    if (auto ok = message.finish(); !ok) {
      item_.refuse(in_response_names(ok.error()));
    }
  }

  void read_output() {
    out_.role = "tool";
    item_.require("call_id");
    out_.tool_call_id = item_.text("call_id", {}, name_bytes_max);
    out_.content = read_content("output");
  }

  field_reader& item_;
  std::string path_;
  const request_limits& limits_;
  chat_message out_;
};

// A message of reasoning alone: it belongs to the one behind it.
bool is_thought(const chat_message& m) {
  return m.role == "assistant" && m.content.empty() && m.tool_calls.empty();
}

// Consecutive calls, or calls after a text, form one chat message.
void append(chat_prompt& chat, chat_message next) {
  if (!chat.empty() && is_thought(chat.back()) && next.role == "assistant") {
    next.reasoning.insert(0, chat.back().reasoning);
    chat.pop_back();
  }
  const bool is_call = !next.tool_calls.empty();
  if (!is_call || chat.empty() || chat.back().role != "assistant") {
    chat.push_back(std::move(next));
    return;
  }
  chat.back().reasoning += next.reasoning;
  add_calls(chat.back().tool_calls, next.tool_calls);
}

} // namespace

std::string encrypted_content(std::string_view reasoning) {
  return std::string(encrypted_mark) + text::base64_of(reasoning);
}

chat_prompt read_input(field_reader& fields, const request_limits& limits) {
  const auto* input = fields.require("input");
  if (!input) {
    return {};
  }
  if (input->is_string()) {
    return {chat_message{.role = "user", .content = input->get<std::string>(), .name = {}}};
  }
  if (!input->is_array()) {
    fields.refuse_type("input", "a string or an array of items", *input);
    return {};
  }
  if (input->empty() || input->size() > limits.messages_max) {
    fields.refuse(
        errc::invalid_value, "input",
        fmt::format("'input' must have 1 to {} items, not {}", limits.messages_max, input->size()));
    return {};
  }
  chat_prompt chat;
  for (std::size_t i = 0; i < input->size(); ++i) {
    const auto& value = (*input)[i];
    if (!value.is_object()) {
      fields.refuse_type(fmt::format("input[{}]", i), "an object", value);
      return {};
    }
    const auto path = fmt::format("input[{}].", i);
    field_reader item(value, path);
    auto message = item_reader(item, path, limits).read();
    if (auto ok = item.finish({}, object_kind::message); !ok) {
      fields.refuse(ok.error());
      return {};
    }
    append(chat, std::move(message));
  }
  return chat;
}

error in_response_names(error e) {
  static constexpr path_rename renames[] = {
      {"tool_calls[0].function.", ""},
      {"tool_calls[0].id", "call_id"},
      {"tool_calls[0].", ""},
      {"].function.", "]."},
      {"tool_choice.function.", "tool_choice."},
      {"response_format.json_schema", "text.format"},
      {"response_format", "text.format"},
      {"structured_outputs", "text.format"},
      {"messages", "input"},
  };
  return with_renamed_paths(renames, std::move(e));
}

} // namespace baton::gateway
