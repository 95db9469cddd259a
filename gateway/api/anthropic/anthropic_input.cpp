#include "gateway/api/anthropic/anthropic_input.hpp"

#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/translated_fields.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t word_bytes_max = 256; // types, roles, ids
constexpr std::size_t word_shown_bytes_max = 64;

// Members of an answer's blocks that return in a conversation and have no effect.
constexpr unsupported_field unsupported_in_block[] = {
    {"citations", "[]"},
    {"citations", R"({"enabled":false})"},
    {"caller", R"({"type":"direct"})"},
};

error in_block_names(error e) {
  static constexpr path_rename renames[] = {
      {"tool_calls[0].function.arguments", "input"},
      {"tool_calls[0].function.", ""},
      {"tool_calls[0].", ""},
  };
  return with_renamed_paths(renames, std::move(e));
}

std::string without_lead(std::string id) {
  return id.starts_with(tool_use_lead) ? id.substr(tool_use_lead.size()) : id;
}

void add_line(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) {
    text += '\n';
  }
  text += more;
}

// Reads the blocks of one `content` or `system`.
class block_reader {
public:
  // `path`: of the list ("messages[0].content").
  block_reader(field_reader& fields, const request_limits& limits, std::string path)
      : fields_(fields), limits_(limits), path_(std::move(path)) {}

  // A string, or a list of text blocks.
  std::string text(const json& value) {
    std::string all;
    if (value.is_string()) {
      return value.get<std::string>();
    }
    each(value, [&](field_reader& block, std::string_view type, std::size_t) {
      if (type == "text") {
        add_line(all, block_text(block));
      } else {
        refuse_block(block, type);
      }
    });
    return all;
  }

  // Messages of a user: its texts, and the results of calls.
  void user(const json& value, chat_prompt& out) {
    each(value, [&](field_reader& block, std::string_view type, std::size_t index) {
      if (type == "text") {
        add(out, chat_message{.role = "user", .content = block_text(block), .name = {}});
      } else if (type == "tool_result") {
        out.push_back(result_of(block, index));
      } else {
        refuse_block(block, type);
      }
    });
  }

  // A message of the model: texts and calls. `source`: the list, with members in order.
  void assistant(const json& value, const ordered& source, chat_prompt& out) {
    chat_message message{.role = "assistant", .content = {}, .name = {}};
    each(value, [&](field_reader& block, std::string_view type, std::size_t index) {
      if (type == "text") {
        add_line(message.content, block_text(block));
      } else if (type == "tool_use") {
        add_calls(message.tool_calls, call_of(block, source.at(index), index));
      } else if (type == "thinking") {
        add_line(message.reasoning, thought_of(block));
      } else if (type == "redacted_thinking") { // only Anthropic can read it
        block.text("data", {}, limits::prompt_bytes_max);
      } else {
        refuse_block(block, type);
      }
    });
    add(out, std::move(message));
  }

  // Joins it to a message of the same role.
  static void add(chat_prompt& out, chat_message next) {
    if (out.empty() || out.back().role != next.role) {
      out.push_back(std::move(next));
      return;
    }
    add_line(out.back().content, next.content);
    add_line(out.back().reasoning, next.reasoning);
    if (!next.tool_calls.empty()) {
      add_calls(out.back().tool_calls, next.tool_calls);
    }
  }

private:
  template <class Read>
  void each(const json& list, Read read) {
    if (!list.is_array()) {
      return fields_.refuse(
          error{errc::invalid_value,
                fmt::format("'{}' must be a string or an array of content blocks, not {}", path_,
                            kind_of_json(list)),
                path_});
    }
    for (std::size_t i = 0; i < list.size() && !fields_.has_failed(); ++i) {
      const auto path = fmt::format("{}[{}]", path_, i);
      if (!list[i].is_object()) {
        return fields_.refuse(error{
            errc::invalid_value,
            fmt::format("'{}' must be an object, not {}", path, kind_of_json(list[i])), path});
      }
      field_reader block(list[i], path + ".");
      block.require("type");
      const auto type = block.text("type", {}, word_bytes_max);
      if (!block.has_failed()) {
        read(block, type, i);
      }
      if (auto ok = block.finish(unsupported_in_block, object_kind::part); !ok) {
        fields_.refuse(ok.error());
      }
    }
  }

  void refuse_block(field_reader& block, std::string_view type) const {
    block.refuse(errc::unsupported_parameter, "type",
                 fmt::format("blocks of the type '{}' are not supported here by this server",
                             type.substr(0, word_shown_bytes_max)));
  }

  static std::string block_text(field_reader& block) {
    const auto* text = block.require("text");
    if (text && !text->is_string()) {
      block.refuse_type("text", "a string", *text);
    }
    return text && text->is_string() ? text->get<std::string>() : std::string();
  }

  static std::string thought_of(field_reader& block) {
    block.require("thinking");
    block.text("signature", {}, limits::prompt_bytes_max);
    return block.text("thinking", {}, limits::prompt_bytes_max);
  }

  static std::string id_of(field_reader& block, std::string_view name) {
    block.require(name);
    return without_lead(block.text(name, {}, word_bytes_max));
  }

  chat_message result_of(field_reader& block, std::size_t index) {
    chat_message out{.role = "tool", .content = {}, .name = {}};
    out.tool_call_id = id_of(block, "tool_use_id");
    if (const auto* content = block.find("content")) {
      out.content =
          block_reader(block, limits_, fmt::format("{}[{}].content", path_, index)).text(*content);
    }
    if (block.boolean("is_error", false)) { // templates have no other place for it
      out.content = out.content.empty() ? "Error" : "Error: " + out.content;
    }
    return out;
  }

  // The call as a list of one, in the template's form.
  std::string call_of(field_reader& block, const ordered& source, std::size_t index) {
    const auto id = id_of(block, "id");
    const auto* name = block.require("name");
    const auto* input = block.require("input");
    if (input && !input->is_object()) {
      block.refuse_type("input", "an object", *input);
    }
    if (block.has_failed()) {
      return "[]";
    }
    const json function{{"name", *name}, {"arguments", json_text(source.at("input"))}};
    const json call{{"id", id}, {"type", "function"}, {"function", function}};
    const json chat{{"tool_calls", json::array({call})}};
    const auto path = fmt::format("{}[{}].", path_, index);
    field_reader message(chat, path);
    chat_message out{.role = "assistant", .content = {}, .name = {}};
    read_calls_of(message, path, limits_, out);
    if (auto ok = message.finish(); !ok) {
      block.refuse(in_block_names(ok.error()));
    }
    return out.tool_calls;
  }

  field_reader& fields_;
  const request_limits& limits_;
  std::string path_;
};

void read_message(field_reader& message, const std::string& path, const ordered& source,
                  const request_limits& limits, chat_prompt& out) {
  message.require("role");
  const auto role = message.text("role", {}, word_bytes_max);
  if (!message.has_failed() && role != "user" && role != "assistant" && role != "system") {
    message.refuse(errc::invalid_value, "role",
                   "a role must be one of 'user', 'assistant', 'system'");
  }
  const auto* content = message.require("content");
  if (message.has_failed()) {
    return;
  }
  block_reader blocks(message, limits, path + "content");
  if (content->is_string()) {
    block_reader::add(
        out, chat_message{.role = role, .content = content->get<std::string>(), .name = {}});
  } else if (role == "system") {
    block_reader::add(out,
                      chat_message{.role = role, .content = blocks.text(*content), .name = {}});
  } else if (role == "user") {
    blocks.user(*content, out);
  } else {
    blocks.assistant(*content, source.at("content"), out);
  }
}

void read_anthropic_messages(field_reader& fields, const ordered& source,
                             const request_limits& limits, chat_prompt& out) {
  const auto* value = fields.require("messages");
  if (!value) {
    return;
  }
  if (!value->is_array()) {
    return fields.refuse_type("messages", "an array", *value);
  }
  if (value->empty() || value->size() > limits.messages_max) {
    return fields.refuse(errc::invalid_value, "messages",
                         fmt::format("'messages' must have 1 to {} messages, not {}",
                                     limits.messages_max, value->size()));
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    const auto& item = (*value)[i];
    if (!item.is_object()) {
      return fields.refuse_type(fmt::format("messages[{}]", i), "an object", item);
    }
    const auto path = fmt::format("messages[{}].", i);
    field_reader message(item, path);
    read_message(message, path, source.at("messages").at(i), limits, out);
    if (auto ok = message.finish({}, object_kind::message); !ok) {
      return fields.refuse(ok.error());
    }
  }
}

} // namespace

anthropic_input read_anthropic_input(field_reader& fields, const ordered& source,
                                     const request_limits& limits) {
  anthropic_input out;
  if (const auto* system = fields.find("system")) {
    auto text = block_reader(fields, limits, "system").text(*system);
    if (!text.empty()) {
      out.chat.push_back(chat_message{.role = "system", .content = std::move(text), .name = {}});
    }
  }
  read_anthropic_messages(fields, source, limits, out.chat);
  if (fields.has_failed()) {
    return out;
  }
  if (std::all_of(out.chat.begin(), out.chat.end(),
                  [](const chat_message& m) { return m.role == "system"; })) {
    fields.refuse(errc::invalid_value, "messages", "'messages' has no content");
    return out;
  }
  if (out.chat.back().role != "assistant") {
    return out;
  }
  auto& last = out.chat.back();
  if (!last.tool_calls.empty()) {
    fields.refuse(errc::invalid_value, "messages",
                  "the last message has 'tool_use' blocks: a message with a 'tool_result' for each "
                  "must follow");
  } else if (last.content.empty()) { // as in Anthropic's API
    out.chat.pop_back();
  } else {
    out.continues_final = true;
  }
  return out;
}

} // namespace baton::gateway
