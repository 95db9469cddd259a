// Parsing, rendering, and the division into segments.
#include "runtime/text/template/chat_template.hpp"

#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/syntax/parser.hpp"
#include "runtime/text/template/text_operations.hpp"

#include <algorithm>
#include <array>

namespace baton::text {

namespace {

// Names that chat_template_kwargs may not set: a token's text would be trusted, and the template
// belongs to the model.
constexpr std::array<std::string_view, 9> reserved_names = {
    "messages",  "tools",         "documents", "add_generation_prompt", "continue_final_message",
    "bos_token", "chat_template", "eos_token", "strftime_now"};

// Appended to the last message, found in the prompt, and cut off with everything after it. This is
// the method and text of transformers, so templates that inspect the content see the same.
constexpr std::string_view open_end = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view open_end_mark = open_end.substr(0, open_end.size() - 1);

error cannot_continue(std::string_view why) {
  return fail_param(errc::invalid_value, "continue_final_message",
                    "the last message cannot be continued: {}", why);
}

struct open_messages {
  value all;
  std::string final_text;
};

value with_member(const value& map, std::string_view name, const value& item) {
  std::vector<map_entry> entries = map.as_map();
  for (map_entry& e : entries) {
    if (e.key.is(value::kind::string) && e.key.as_text().text() == name) {
      e.item = item;
    }
  }
  return value::map(std::move(entries));
}

// Appends the mark to the text.
value with_open_end(const value& text) {
  marked_text longer = text.as_text();
  longer.append_untrusted(open_end);
  return value::marked(std::move(longer));
}

// Appends the mark to the last message's content, or to its last text part.
result<open_messages> with_open_end_of(const value& messages) {
  const auto is_text = [](const value* v) { return v && v->is(value::kind::string); };
  if (!messages.is(value::kind::list) || messages.as_list().empty() ||
      !messages.as_list().back().is(value::kind::map)) {
    return cannot_continue("there is none");
  }
  std::vector<value> all = messages.as_list();
  const value last = all.back();
  const value* content = last.find("content");
  if (is_text(content)) {
    all.back() = with_member(last, "content", with_open_end(*content));
    return open_messages{value::list(std::move(all)), content->as_text().text()};
  }
  if (content && content->is(value::kind::list)) {
    std::vector<value> parts = content->as_list();
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const value* text = part->is(value::kind::map) ? part->find("text") : nullptr;
      if (is_text(text)) {
        std::string final_text = text->as_text().text();
        *part = with_member(*part, "text", with_open_end(*text));
        all.back() = with_member(last, "content", value::list(std::move(parts)));
        return open_messages{value::list(std::move(all)), std::move(final_text)};
      }
    }
  }
  return cannot_continue("it has no text");
}

// The prompt up to the mark. If the template trims contents, the mark's trailing space is gone;
// then the text before the mark is trimmed as well.
result<marked_text> cut_at_open_end(const marked_text& prompt, std::string_view final_text) {
  const std::string_view text = prompt.text();
  const auto at = text.rfind(open_end_mark);
  const auto ink = jinja::strip_range(final_text, nullptr, {});
  const bool has_kept =
      text.find(final_text.substr(ink.begin, ink.end - ink.begin)) != std::string_view::npos;
  if (at == std::string_view::npos || !has_kept) {
    return cannot_continue("the model's chat template does not write it as it is");
  }
  const bool has_space = text.substr(at).starts_with(open_end);
  return prompt.slice(0, has_space ? at : jinja::strip_range(text.substr(0, at), nullptr, {}).end);
}

// The message with its role trusted, if that is a known role.
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
  // A tree that is too deep has lost its children; the interpreter refuses it unchanged.
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
  value messages = with_trusted_roles(input.messages, input.trusted_roles);
  std::string final_text;
  if (input.continues_final) {
    auto open = with_open_end_of(messages);
    if (!open) {
      return open.error();
    }
    messages = std::move(open->all);
    final_text = std::move(open->final_text);
  }
  std::vector<std::pair<std::string, value>> variables = {
      {"documents", input.documents},
      {"messages", std::move(messages)},
      {"tools", input.tools},
      {"add_generation_prompt", value::boolean(input.add_generation_prompt)},
      {"bos_token", value::trusted(input.bos_token)},
      {"eos_token", value::trusted(input.eos_token)}};
  for (const auto& [name, text] : input.named_tokens) {
    variables.emplace_back(name, value::trusted(text));
  }
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
  if (!input.continues_final) {
    return rendered{cut(*prompt)};
  }
  const auto open = cut_at_open_end(*prompt, final_text);
  return open ? result<rendered>(rendered{cut(*open)}) : open.error();
}

bool chat_template::reads(std::string_view name) const {
  return tree_->names.contains(name);
}

} // namespace baton::text
