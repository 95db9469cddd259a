#include "gateway/api/openai/request/openai_tools.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/grammar/compile.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace baton::gateway {
namespace {

constexpr std::size_t function_name_bytes_max = 64; // OpenAI's limit
constexpr std::size_t call_id_bytes_max = 256;      // of a call
constexpr std::uint32_t calls_at_once = 16;         // in one constrained answer, to bound it

bool is_name(std::string_view text) noexcept {
  constexpr std::string_view possible =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !text.empty() && text.size() <= function_name_bytes_max &&
         text.find_first_not_of(possible) == std::string_view::npos;
}

std::string read_name(field_reader& function) {
  const auto* value = function.require("name");
  if (value && !(value->is_string() && is_name(value->get_ref<const std::string&>()))) {
    function.refuse(errc::invalid_value, "name",
                    fmt::format("the name of a function has 1 to {} letters, digits, '_' and '-'",
                                function_name_bytes_max));
    return {};
  }
  return value ? value->get<std::string>() : std::string();
}

void read_type(field_reader& from, std::string_view wanted) {
  const auto* type = from.require("type");
  if (!type) {
    return;
  }
  if (!type->is_string()) {
    from.refuse_type("type", "a string", *type);
  } else if (type->get_ref<const std::string&>() != wanted) {
    from.refuse(
        errc::unsupported_parameter, "type",
        fmt::format("a 'type' other than '{}' is not supported here by this server", wanted));
  }
}

// The schema as the client wrote it. A schema without a type is one of an object.
std::string schema_of(const grammar::json_value& tool) {
  const auto* function = tool.find("function");
  const auto* schema = function ? function->find("parameters") : nullptr;
  if (!schema || !schema->is_object()) {
    return R"({"type":"object","properties":{}})"; // no parameters, as in OpenAI
  }
  constexpr std::array type_keywords{"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
  if (std::any_of(type_keywords.begin(), type_keywords.end(),
                  [&](const char* keyword) { return schema->find(keyword) != nullptr; })) {
    return grammar::to_text(*schema);
  }
  auto typed = *schema;
  const grammar::json_value object{.is = grammar::json_value::kind::string, .text = "object"};
  typed.members.emplace(typed.members.begin(), "type", object);
  return grammar::to_text(typed);
}

asked_tool read_tool(field_reader& tool) {
  asked_tool out;
  read_type(tool, "function");
  tool.require("function");
  tool.object(
      "function",
      [&](field_reader& function) {
        out.name = read_name(function);
        function.text("description", {}, description_bytes_max);
        out.is_strict = function.boolean("strict", false);
        const auto* parameters = function.find("parameters");
        if (parameters && !parameters->is_object()) {
          function.refuse_type("parameters", "a JSON schema, an object", *parameters);
        }
      },
      {}, object_kind::tool);
  return out;
}

// False: the reader holds the error.
bool read_list(field_reader& fields, const json& list, const request_limits& limits,
               asked_tools& out) {
  if (!list.is_array()) {
    fields.refuse_type("tools", "an array", list);
    return false;
  }
  if (list.size() > limits.tools_max) {
    fields.refuse(errc::invalid_value, "tools",
                  fmt::format("'tools' has {} tools of at most {}", list.size(), limits.tools_max));
    return false;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) {
      fields.refuse_type(fmt::format("tools[{}]", i), "an object", list[i]);
      return false;
    }
    const auto path = fmt::format("tools[{}].", i);
    field_reader tool(list[i], path);
    out.all.push_back(read_tool(tool));
    if (auto ok = tool.finish({}, object_kind::tool); !ok) {
      fields.refuse(ok.error());
      return false;
    }
    if (!names.insert(out.all.back().name).second) {
      fields.refuse(errc::invalid_value, path + "function.name",
                    fmt::format("two tools have the name '{}'", out.all.back().name));
      return false;
    }
  }
  return true;
}

bool has_tool(const asked_tools& of, std::string_view name) {
  return std::any_of(of.all.begin(), of.all.end(),
                     [&](const asked_tool& t) { return t.name == name; });
}

void read_named_choice(field_reader& fields, const json& value, asked_tools& out) {
  field_reader choice(value, "tool_choice.");
  read_type(choice, "function");
  choice.require("function");
  choice.object("function", [&](field_reader& function) { out.named = read_name(function); });
  if (auto ok = choice.finish(); !ok) {
    return fields.refuse(ok.error());
  }
  out.choice = tool_choice::named;
  if (!has_tool(out, out.named)) {
    fields.refuse(errc::invalid_value, "tool_choice",
                  fmt::format("'tool_choice' names '{}', which is none of 'tools'", out.named));
  }
}

void read_choice(field_reader& fields, asked_tools& out) {
  const auto* value = fields.find("tool_choice");
  if (!value) {
    return;
  }
  if (value->is_object()) {
    return read_named_choice(fields, *value, out);
  }
  constexpr std::array choices{"none", "auto", "required"}; // as tool_choice
  const auto keyword = value->is_string() ? value->get<std::string>() : std::string();
  const auto known = std::find(choices.begin(), choices.end(), keyword);
  if (known == choices.end() && has_tool(out, keyword)) { // TGI's way to name one
    out.choice = tool_choice::named;
    out.named = keyword;
    return;
  }
  if (known == choices.end()) {
    return fields.refuse(errc::invalid_value, "tool_choice",
                         "'tool_choice' must be 'none', 'auto', 'required' or a function: "
                         "{\"type\": \"function\", \"function\": {\"name\": ...}}");
  }
  out.choice = static_cast<tool_choice>(known - choices.begin());
  if (out.choice == tool_choice::required && out.all.empty()) {
    fields.refuse(errc::invalid_value, "tool_choice", "'tool_choice' 'required' needs 'tools'");
  }
}

// An entry of `tool_calls` in the template's form: its arguments as an object.
std::string read_call(field_reader& call, const std::string& path) {
  std::string name, arguments;
  call.require("id");
  const auto id = call.text("id", {}, call_id_bytes_max);
  read_type(call, "function");
  call.require("function");
  call.object(
      "function",
      [&](field_reader& function) {
        name = read_name(function);
        const auto* text = function.require("arguments");
        if (!text) {
          return;
        }
        if (!text->is_string()) {
          return function.refuse_type("arguments", "a string", *text);
        }
        const auto& given = text->get_ref<const std::string&>();
        const auto parsed = grammar::parse_json(given.empty() ? "{}" : given);
        if (!parsed || !parsed->is_object()) {
          return function.refuse(
              errc::invalid_value, "arguments",
              fmt::format("'{}function.arguments' must be the text of a JSON object", path));
        }
        arguments = grammar::to_text(*parsed);
      },
      {}, object_kind::call);
  return fmt::format(R"({{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}})",
                     grammar::quoted(id), grammar::quoted(name), arguments);
}

// An answer that must call a tool has no text.
bool must_call(const asked_tools& asked) noexcept {
  return asked.choice != tool_choice::automatic;
}

// `otherwise`: the format of an answer without calls; none: any text.
std::string constraint_text(const asked_tools& asked, const text::call_row& row,
                            const shared_constraint& otherwise) {
  const bool is_forced = must_call(asked);
  const bool is_one = asked.choice == tool_choice::named || !asked.is_parallel || !row.has_parallel;
  std::string tools;
  for (const auto& tool : asked.all) {
    if (asked.choice == tool_choice::named && tool.name != asked.named) {
      continue;
    }
    const auto schema =
        is_forced || tool.is_strict ? fmt::format(R"(,"schema":{})", tool.schema) : std::string();
    tools += fmt::format(R"({}{{"name":{}{}}})", tools.empty() ? "" : ",",
                         grammar::quoted(tool.name), schema);
  }
  const auto other =
      otherwise ? fmt::format(R"(,"otherwise":{{"kind":{},"text":{}}})",
                              static_cast<int>(otherwise->kind), grammar::quoted(otherwise->text))
                : std::string();
  return fmt::format(R"({{"format":{},"calls_max":{},"has_text":{},"tools":[{}]{}}})",
                     grammar::quoted(row.name), is_one ? 1 : calls_at_once,
                     !is_forced && !otherwise, tools, other);
}

} // namespace

std::optional<asked_tools> read_tools(field_reader& fields, std::string_view source,
                                      const request_limits& limits) {
  asked_tools out;
  const auto* list = fields.find("tools");
  if (list && !read_list(fields, *list, limits, out)) {
    return std::nullopt;
  }
  read_choice(fields, out);
  out.is_parallel = fields.boolean("parallel_tool_calls", true);
  if (out.all.empty() || out.choice == tool_choice::none || fields.has_failed()) {
    return std::nullopt;
  }
  constexpr std::array<std::string_view, 1> path{"tools"};
  auto text = raw_member(source, path);
  const auto parsed = text ? grammar::parse_json(*text) // keeps the order of members
                           : result<grammar::json_value>(text.error());
  if (!parsed || parsed->items.size() != out.all.size()) {
    fields.refuse(errc::invalid_value, "tools",
                  parsed ? "the text of 'tools' cannot be read" : parsed.error().message);
    return std::nullopt;
  }
  out.text = *std::move(text);
  for (std::size_t i = 0; i < out.all.size(); ++i) {
    out.all[i].schema = schema_of(parsed->items[i]);
  }
  return out;
}

void read_calls_of(field_reader& message, const std::string& path, const request_limits& limits,
                   chat_message& out) {
  if (out.role == "tool") {
    message.require("tool_call_id");
    out.tool_call_id = message.text("tool_call_id", {}, call_id_bytes_max);
    return;
  }
  const auto* calls = out.role == "assistant" ? message.find("tool_calls") : nullptr;
  if (!calls) {
    return;
  }
  if (!calls->is_array() || calls->size() > limits.tools_max) {
    return message.refuse(
        errc::invalid_value, "tool_calls",
        fmt::format("'{}tool_calls' must be an array of at most {} calls", path, limits.tools_max));
  }
  std::string all;
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const auto& item = (*calls)[i];
    const auto name = fmt::format("tool_calls[{}]", i);
    if (!item.is_object()) {
      return message.refuse_type(name, "an object", item);
    }
    const auto call_path = fmt::format("{}{}.", path, name);
    field_reader call(item, call_path);
    all += (i == 0 ? "" : ",") + read_call(call, call_path);
    if (auto ok = call.finish({}, object_kind::call); !ok) {
      return message.refuse(ok.error());
    }
  }
  if (!all.empty()) {
    out.tool_calls = "[" + all + "]";
  }
}

void add_calls(std::string& all, std::string_view more) {
  if (all.empty()) {
    all = more;
    return;
  }
  all.back() = ','; // replaces the bracket
  all += more.substr(1);
}

result<void> settle_calls(openai_generate& call, call_format format) {
  if (!call.tools) {
    return {};
  }
  const auto& asked = *call.tools;
  const auto& row = text::row_of(format);
  auto how = std::make_shared<call_reading>();
  how->format = format;
  for (const auto& tool : asked.all) {
    how->names.push_back(tool.name);
    auto schema = grammar::parse_json(tool.schema);
    how->schemas.push_back(schema ? *std::move(schema) : grammar::json_value{});
  }
  const bool is_strict = std::any_of(asked.all.begin(), asked.all.end(),
                                     [](const asked_tool& t) { return t.is_strict; });
  const bool is_forced = must_call(asked);
  auto& constrained = call.request.terms.sampling.constraint;
  // An answer that must call has no text, so no format applies.
  const bool has_format = constrained && constrained->kind != constraint_kind::free;
  const auto otherwise = has_format && !is_forced ? constrained : shared_constraint();
  const bool is_kept = is_forced || is_strict || !asked.is_parallel;
  how->is_constrained = is_kept && !otherwise; // else such text may be that format
  if (is_kept || otherwise) {
    constraint shape{constraint_kind::calls, constraint_text(asked, row, otherwise)};
    if (auto rules = grammar::compile(shape); !rules) {
      return error{rules.error().code, rules.error().message, "tools"};
    }
    shape.reasoning_tokens_max = constrained ? constrained->reasoning_tokens_max : -1;
    constrained = std::move(shape);
  }
  call.request.terms.stop.shows_call_marks = true;
  call.shape.calls = std::move(how);
  return {};
}

} // namespace baton::gateway
