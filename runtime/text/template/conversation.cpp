#include "runtime/text/template/conversation.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace baton::text {
namespace {

using json = nlohmann::ordered_json; // members in the order of the client's

result<json> parse(std::string_view text, json::value_t kind, const char* param) {
  bool is_too_deep = false;
  const auto watch = [&is_too_deep](int depth, json::parse_event_t, json&) {
    is_too_deep |= depth >= static_cast<int>(value::depth_max);
    return !is_too_deep;
  };
  auto parsed = json::parse(text, watch, /*allow_exceptions=*/false);
  if (is_too_deep || parsed.type() != kind)
    return fail_param(errc::invalid_value, param, "'{}' is not a JSON {}, or nested too deeply",
                      param, kind == json::value_t::array ? "array" : "object");
  return parsed;
}

result<json> parse_array(std::string_view text, const char* param) {
  return parse(text, json::value_t::array, param);
}

// All strings are data: they never yield special tokens.
value value_of(const json& from) {
  switch (from.type()) {
  case json::value_t::boolean:
    return value::boolean(from.get<bool>());
  case json::value_t::number_integer:
    return value::integer(from.get<std::int64_t>());
  case json::value_t::number_unsigned:
    return from.get<std::uint64_t>() <= INT64_MAX ? value::integer(from.get<std::int64_t>())
                                                  : value::real(from.get<double>());
  case json::value_t::number_float:
    return value::real(from.get<double>());
  case json::value_t::string:
    return value::string(from.get<std::string>());
  case json::value_t::array: {
    std::vector<value> items;
    for (const auto& item : from)
      items.push_back(value_of(item));
    return value::list(std::move(items));
  }
  case json::value_t::object: {
    std::vector<std::pair<std::string, value>> members;
    for (const auto& [name, item] : from.items())
      members.emplace_back(name, value_of(item));
    return value::map(std::move(members));
  }
  default:
    return value::none();
  }
}

std::string dump(const json& from) {
  return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string hermes_prompt(const json& tools) {
  std::string out = "You may call functions to help the user. These are the functions, each with "
                    "the JSON schema of its arguments:\n<tools>\n";
  for (const auto& tool : tools)
    out += dump(tool) + "\n";
  out += "</tools>\nTo call one, answer with its name and arguments as JSON between "
         "<tool_call> and </tool_call>, for each call:\n<tool_call>\n"
         "{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call>";
  return out;
}

// In the format that the parser of answers reads.
std::string hermes_calls(const json& calls) {
  const auto& row = row_of(call_format::hermes);
  std::string out;
  for (const auto& call : calls) {
    const auto function = call.is_object() ? call.value("function", json::object()) : json();
    const auto member = [&](const char* name) {
      return function.is_object() && function.contains(name) ? function[name] : json();
    };
    out += out.empty() ? "" : row.between;
    out += row.call_open;
    out += "{\"name\": " + dump(member("name")) + ", \"arguments\": " + dump(member("arguments"));
    out += "}";
    out += row.call_close;
  }
  return out;
}

// The same conversation as plain messages, for a template that does not support tools.
result<chat_prompt> without_tools(const chat_prompt& chat, std::string_view tools) {
  chat_prompt out;
  if (!tools.empty()) {
    const auto parsed = parse_array(tools, "tools");
    if (!parsed)
      return parsed.error();
    out.push_back({.role = "system", .content = hermes_prompt(*parsed), .name = ""});
  }
  bool is_answered = false; // the previous message is a tool result
  for (const auto& m : chat) {
    const bool is_result = m.role == "tool";
    if (out.size() == 1 && &m == &chat.front() && m.role == "system") {
      out.front().content.insert(0, m.content + "\n\n");
    } else if (is_result) {
      const auto response = "<tool_response>\n" + m.content + "\n</tool_response>";
      if (is_answered)
        out.back().content += "\n" + response;
      else
        out.push_back({.role = "user", .content = response, .name = ""});
    } else {
      out.push_back(
          {.role = m.role, .content = m.content, .name = m.name, .reasoning = m.reasoning});
    }
    if (!m.tool_calls.empty()) {
      const auto calls = parse_array(m.tool_calls, "messages");
      if (!calls)
        return calls.error();
      out.back().content += m.content.empty() ? "" : "\n";
      out.back().content += hermes_calls(*calls);
    }
    is_answered = is_result;
  }
  return out;
}

// Writes messages in the form that a template of this style reads.
class message_writer {
public:
  explicit message_writer(const call_style& style) : style_(style) {}

  result<value> write(const chat_message& m) {
    std::vector<std::pair<std::string, value>> entry{{"role", value::string(m.role)},
                                                     {"content", value::string(m.content)}};
    if (!m.name.empty())
      entry.emplace_back("name", value::string(m.name));
    if (!m.reasoning.empty()) // the names that templates read
      for (const auto* name : {"reasoning_content", "reasoning", "thinking"})
        entry.emplace_back(name, value::string(m.reasoning));
    if (!m.tool_call_id.empty()) {
      const auto named = named_ids_.find(m.tool_call_id);
      entry.emplace_back("tool_call_id",
                         value::string(named == named_ids_.end() ? m.tool_call_id : named->second));
    }
    if (!m.tool_calls.empty()) {
      auto calls = parse_array(m.tool_calls, "messages");
      if (!calls)
        return calls.error();
      for (auto& call : *calls)
        if (call.is_object() && call.contains("function") && call["function"].is_object())
          adapt(call, call["function"]);
      entry.emplace_back("tool_calls", value_of(*calls));
    }
    return value::map(std::move(entry));
  }

private:
  void adapt(json& call, json& function) {
    if (style_.has_text_arguments && function.contains("arguments"))
      function["arguments"] = dump(function["arguments"]);
    if (!row_of(style_.format).has_named_ids || !function.contains("name") ||
        !function["name"].is_string())
      return;
    // Numbered through the conversation.
    auto id =
        fmt::format("functions.{}:{}", function["name"].get_ref<const std::string&>(), calls_++);
    if (call.contains("id") && call["id"].is_string())
      named_ids_[call["id"].get<std::string>()] = id;
    call["id"] = std::move(id);
  }

  const call_style& style_;
  std::map<std::string, std::string> named_ids_; // by the ids of this server
  std::size_t calls_ = 0;
};

} // namespace

result<void> put_conversation(const chat_prompt& chat, std::string_view tools,
                              const call_style& style, template_input& to) {
  const auto has_tools = [](const chat_message& m) {
    return m.role == "tool" || !m.tool_calls.empty();
  };
  // Most conversations have no tools and are passed unchanged.
  const bool is_plain = tools.empty() && std::none_of(chat.begin(), chat.end(), has_tools);
  result<chat_prompt> plain = chat_prompt{};
  if (!style.is_native && !is_plain)
    plain = without_tools(chat, tools);
  if (!plain)
    return plain.error();
  std::vector<value> messages;
  message_writer writer(style);
  for (const auto& m : style.is_native || is_plain ? chat : *plain) {
    auto message = writer.write(m);
    if (!message)
      return message.error();
    messages.push_back(*std::move(message));
  }
  to.messages = value::list(std::move(messages));
  if (style.is_native && !tools.empty()) {
    const auto parsed = parse_array(tools, "tools");
    if (!parsed)
      return parsed.error();
    to.tools = value_of(*parsed);
  }
  return {};
}

result<void> put_options(const template_options& options, const chat_template& of,
                         template_input& to) {
  if (!options.kwargs.empty()) {
    const auto parsed = parse(options.kwargs, json::value_t::object, "chat_template_kwargs");
    if (!parsed)
      return parsed.error();
    for (const auto& [name, item] : parsed->items())
      to.extra.emplace_back(name, value_of(item));
  }
  if (!options.documents.empty()) {
    const auto parsed = parse_array(options.documents, "documents");
    if (!parsed)
      return parsed.error();
    if (!of.reads("documents"))
      return fail_param(errc::unsupported_parameter, "documents",
                        "the chat template of this model reads no 'documents'");
    to.documents = value_of(*parsed);
  }
  if (options.local_seconds != 0)
    to.now = std::chrono::sys_seconds(std::chrono::seconds(options.local_seconds));
  to.continues_final = options.continues_final;
  return {};
}

} // namespace baton::text
