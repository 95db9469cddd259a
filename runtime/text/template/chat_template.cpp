// Parse, render, and the cut into segments.
#include "runtime/text/template/chat_template.hpp"

#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/parser.hpp"

#include <algorithm>
#include <array>

namespace baton::text {

namespace {

constexpr std::array<std::string_view, 5> reserved_names = {"messages", "tools", "bos_token",
                                                            "eos_token", "add_generation_prompt"};

// The message with its role trusted, if that is one of the known words.
value with_trusted_role(const value& message, const std::vector<std::string>& roles) {
  if (!message.is(value::kind::map)) {
    return message;
  }
  const value* role = message.find("role");
  if (!role || !role->is(value::kind::string) ||
      std::find(roles.begin(), roles.end(), role->as_text().text()) == roles.end()) {
    return message;
  }
  std::vector<map_entry> entries = message.as_map();
  for (map_entry& e : entries) {
    if (e.key.is(value::kind::string) && e.key.as_text().text() == "role") {
      e.item = value::trusted(role->as_text().text());
    }
  }
  return value::map(std::move(entries));
}

value with_trusted_roles(const value& messages, const std::vector<std::string>& roles) {
  // A tree that is too deep has lost its children; as it is, the interpreter refuses it.
  if (!messages.is(value::kind::list) || messages.depth() > value::depth_max) {
    return messages;
  }
  std::vector<value> all;
  all.reserve(messages.as_list().size());
  for (const value& message : messages.as_list()) {
    all.push_back(with_trusted_role(message, roles));
  }
  return value::list(std::move(all));
}

std::vector<text_segment> cut(const marked_text& prompt) {
  std::vector<text_segment> segments;
  std::size_t at = 0;
  const auto put = [&](std::size_t end, bool special_allowed) {
    if (end > at) {
      segments.push_back({prompt.text().substr(at, end - at), special_allowed});
      at = end;
    }
  };
  for (const byte_range& range : prompt.untrusted_ranges()) {
    put(range.begin, true);
    put(range.end, false);
  }
  put(prompt.size(), true);
  return segments;
}

} // namespace

std::string rendered::text() const {
  std::string all;
  for (const text_segment& segment : segments) {
    all += segment.text;
  }
  return all;
}

result<chat_template> chat_template::parse(std::string_view source, const template_limits& limits) {
  if (source.size() > limits.source_bytes_max) {
    return fail(errc::template_failed, "the template has {} bytes, the limit is {}", source.size(),
                limits.source_bytes_max);
  }
  auto tree = jinja::parse_template(source, limits.nesting_max);
  if (!tree) {
    return tree.error();
  }
  return chat_template(std::make_shared<const jinja::syntax_tree>(std::move(*tree)));
}

result<rendered> chat_template::render(const template_input& input,
                                       const template_limits& limits) const {
  std::vector<std::pair<std::string, value>> variables = {
      {"documents", value::none()}, // `extra` may replace it
      {"messages", with_trusted_roles(input.messages, input.trusted_roles)},
      {"tools", input.tools},
      {"add_generation_prompt", value::boolean(input.add_generation_prompt)},
      {"bos_token", value::trusted(input.bos_token)},
      {"eos_token", value::trusted(input.eos_token)}};
  for (const auto& [name, item] : input.extra) {
    if (std::find(reserved_names.begin(), reserved_names.end(), name) != reserved_names.end()) {
      return fail_param(errc::invalid_value, "chat_template_kwargs",
                        "chat_template_kwargs may not set '{}'", name);
    }
    variables.emplace_back(name, item);
  }
  jinja::interpreter run(limits, input.now);
  auto prompt = run.render(*tree_, variables);
  if (!prompt) {
    return prompt.error();
  }
  return rendered{cut(*prompt)};
}

} // namespace baton::text
