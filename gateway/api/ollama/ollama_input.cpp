#include "gateway/api/ollama/ollama_input.hpp"

#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/translated_fields.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t role_bytes_max = 256; // roles, names, ids

// A call whose result has not come yet.
struct open_call {
  std::string id;
  std::string name;
};

class message_reader {
public:
  message_reader(field_reader& message, std::string path, const request_limits& limits)
      : message_(message), path_(std::move(path)), limits_(limits) {}

  chat_message read(const ordered& source, std::vector<open_call>& open, std::uint32_t& calls) {
    chat_message out;
    message_.require("role");
    out.role = message_.text("role", {}, role_bytes_max);
    if (!message_.has_failed() && out.role != "user" && out.role != "assistant" &&
        out.role != "system" && out.role != "tool") {
      message_.refuse(errc::invalid_value, "role",
                      "a role must be one of 'system', 'user', 'assistant', 'tool'");
    }
    out.content = message_.text("content", {}, limits::prompt_bytes_max);
    auto thinking = message_.text("thinking", {}, limits::prompt_bytes_max);
    if (out.role == "assistant") {
      out.reasoning = std::move(thinking);
    }
    refuse_images(message_);
    const auto* list = message_.find("tool_calls");
    if (list && !(list->is_array() && list->empty())) {
      read_calls(*list, source, open, calls, out);
    }
    read_result(open, out);
    return out;
  }

private:
  void read_calls(const json& list, const ordered& source, std::vector<open_call>& open,
                  std::uint32_t& calls, chat_message& out) {
    if (out.role != "assistant") {
      return message_.refuse(errc::invalid_value, "tool_calls",
                             "only messages of the role 'assistant' have 'tool_calls'");
    }
    if (!list.is_array()) {
      return message_.refuse_type("tool_calls", "an array", list);
    }
    auto translated = json::array();
    for (std::size_t i = 0; i < list.size() && !message_.has_failed(); ++i) {
      translated.push_back(call_of(list[i], source.at("tool_calls").at(i), i, open, calls));
    }
    if (message_.has_failed()) {
      return;
    }
    const json chat{{"tool_calls", std::move(translated)}};
    field_reader inner(chat, path_);
    read_calls_of(inner, path_, limits_, out);
    if (auto ok = inner.finish(); !ok) {
      message_.refuse(ok.error());
    }
  }

  // One of `tool_calls` in OpenAI's form.
  json call_of(const json& call, const ordered& source, std::size_t index,
               std::vector<open_call>& open, std::uint32_t& calls) {
    const auto path = fmt::format("tool_calls[{}]", index);
    if (!call.is_object()) {
      message_.refuse_type(path, "an object", call);
      return {};
    }
    field_reader given(call, path_ + path + ".");
    open_call made;
    std::string arguments = "{}";
    // Nine characters: some families' templates take no others.
    made.id = given.text("id", fmt::format("call{:05}", ++calls), role_bytes_max);
    given.text("type", "function", role_bytes_max);
    given.require("function");
    given.object(
        "function",
        [&](field_reader& function) {
          function.require("name");
          made.name = function.text("name", {}, role_bytes_max);
          const auto* object = function.find("arguments");
          if (object && !object->is_object()) {
            function.refuse_type("arguments", "an object", *object);
          } else if (object) {
            arguments = json_text(source.at("function").at("arguments"));
          }
        },
        {}, object_kind::call);
    if (auto ok = given.finish({}, object_kind::call); !ok) {
      message_.refuse(ok.error());
    }
    json translated{{"id", made.id},
                    {"type", "function"},
                    {"function", {{"name", made.name}, {"arguments", arguments}}}};
    open.push_back(std::move(made));
    return translated;
  }

  void read_result(std::vector<open_call>& open, chat_message& out) {
    const auto name = message_.text("tool_name", {}, role_bytes_max);
    auto id = message_.text("tool_call_id", {}, role_bytes_max);
    if (out.role != "tool") {
      return;
    }
    const auto at = std::find_if(open.begin(), open.end(), [&](const open_call& c) {
      return id.empty() ? name.empty() || c.name == name : c.id == id;
    });
    out.name = name;
    if (at != open.end()) {
      id = at->id;
      out.name = at->name;
      open.erase(at);
    }
    out.tool_call_id = std::move(id);
  }

  field_reader& message_;
  std::string path_;
  const request_limits& limits_;
};

} // namespace

void refuse_images(field_reader& fields) {
  const auto* images = fields.find("images");
  if (images && !(images->is_array() && images->empty())) {
    fields.refuse(errc::unsupported_parameter, "images",
                  "'images' is not supported by this server: its models read text");
  }
}

chat_prompt read_ollama_messages(field_reader& fields, const ordered& source,
                                 const request_limits& limits) {
  chat_prompt out;
  const auto* list = fields.find("messages");
  if (!list) {
    return out;
  }
  if (!list->is_array()) {
    fields.refuse_type("messages", "an array", *list);
    return out;
  }
  if (list->size() > limits.messages_max) {
    fields.refuse(errc::invalid_value, "messages",
                  fmt::format("'messages' must have at most {} messages, not {}",
                              limits.messages_max, list->size()));
    return out;
  }
  std::vector<open_call> open;
  std::uint32_t calls = 0;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto& item = (*list)[i];
    if (!item.is_object()) {
      fields.refuse_type(fmt::format("messages[{}]", i), "an object", item);
      return out;
    }
    const auto path = fmt::format("messages[{}].", i);
    field_reader message(item, path);
    out.push_back(
        message_reader(message, path, limits).read(source.at("messages").at(i), open, calls));
    if (auto ok = message.finish({}, object_kind::message); !ok) {
      fields.refuse(ok.error());
      return out;
    }
  }
  return out;
}

std::optional<asked_tools> read_ollama_tools(field_reader& fields, const ordered& source,
                                             const request_limits& limits) {
  const auto* list = fields.find("tools");
  if (!list || (list->is_array() && list->empty())) {
    return std::nullopt;
  }
  ordered chat{{"tools", source.at("tools")}};
  if (list->is_array()) {
    for (auto& tool : chat["tools"]) {
      if (tool.is_object() && !tool.contains("type")) {
        tool["type"] = "function";
      }
    }
  }
  std::optional<asked_tools> out;
  read_translated(
      fields, chat, [](error e) { return e; },
      [&](field_reader& inner, const std::string& text) { out = read_tools(inner, text, limits); });
  return out;
}

} // namespace baton::gateway
