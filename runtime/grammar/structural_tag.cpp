#include "runtime/grammar/structural_tag.hpp"

#include "runtime/grammar/automata/text_reader.hpp"
#include "runtime/grammar/automata/text_without.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"

#include <algorithm>
#include <set>

namespace baton::grammar {
namespace {

using read_constraint = std::function<result<expression>(const constraint&)>;

constexpr std::size_t marks_max = 128; // triggers, excluded texts, tags of a format

class tag_reader {
public:
  tag_reader(grammar_builder& to, const read_constraint& read_other)
      : to_(to), read_other_(read_other) {}

  result<expression> read(const json_value& from) {
    const auto* type = from.find("type");
    if (!from.is_object() || (type && type->text != "structural_tag"))
      return wrong("", "is an object of the type 'structural_tag'");
    if (const auto* format = from.find("format")) {
      if (auto ok = refuse_others("", from, {"type", "format"}); !ok)
        return ok.error();
      return read_format("format", *format, /*end=*/{}, /*depth=*/0);
    }
    if (auto ok = refuse_others("", from, {"type", "triggers", "structures"}); !ok)
      return ok.error();
    const auto* structures = from.find("structures");
    if (!structures || !structures->is_array() || structures->items.empty())
      return wrong("", "has a 'format', or 'triggers' and 'structures'");
    return read_triggered("", from, *structures, "structures", /*end=*/{}, /*depth=*/0);
  }

private:
  using texts = std::vector<std::string>;
  struct tag {
    std::string begin;
    expression is; // with both ends
  };

  static error at_place(errc code, std::string_view where, std::string_view what) {
    return fail(code, "the structural tag{}{} {}", where.empty() ? "" : ", at ", where, what);
  }

  template <class... Args>
  static error wrong(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
    return at_place(errc::invalid_value, where, fmt::format(text, std::forward<Args>(args)...));
  }

  static result<void> refuse_others(std::string_view where, const json_value& from,
                                    std::initializer_list<std::string_view> known) {
    for (const auto& [name, value] : from.members)
      if (std::find(known.begin(), known.end(), name) == known.end())
        return at_place(errc::unsupported_parameter, where,
                        fmt::format("has '{}', which is not supported", name));
    return {};
  }

  static std::string within(std::string_view where, std::string_view name) {
    return where.empty() ? std::string(name) : fmt::format("{}.{}", where, name);
  }

  static result<std::string> text_of(std::string_view where, const json_value& from,
                                     const char* name) {
    const auto* value = from.find(name);
    if (!value || !value->is_string())
      return wrong(where, "needs '{}', a text", name);
    return value->text;
  }

  static result<bool> flag_of(std::string_view where, const json_value& from, const char* name) {
    const auto* value = from.find(name);
    if (value && !value->is_boolean())
      return wrong(where, "has a '{}' that is neither true nor false", name);
    return value && value->boolean;
  }

  // Texts that are not empty; none, if the member is absent.
  static result<texts> texts_of(std::string_view where, const json_value& from, const char* name) {
    texts out;
    const auto* value = from.find(name);
    if (!value)
      return out;
    const bool is_list = value->is_array() && value->items.size() <= marks_max;
    for (const auto& one : value->items)
      if (one.is_string() && !one.text.empty())
        out.push_back(one.text);
    if (!is_list || out.size() != value->items.size())
      return wrong(where, "has '{}' that are not at most {} texts, none of them empty", name,
                   marks_max);
    return out;
  }

  static result<const json_value*> list_of(std::string_view where, const json_value& from,
                                           const char* name) {
    const auto* value = from.find(name);
    if (!value || !value->is_array() || value->items.empty() || value->items.size() > marks_max)
      return wrong(where, "needs '{}', a list of 1 to {}", name, marks_max);
    return value;
  }

  // `end`: texts before which any text ends, because the tag around ends with one of them.
  result<expression> read_format(const std::string& where, const json_value& from, const texts& end,
                                 std::size_t depth) {
    if (depth > grammar_limits::depth_max)
      return wrong(where, "is nested more than {} times", grammar_limits::depth_max);
    if (!from.is_object())
      return wrong(where, "is not an object");
    const auto type = text_of(where, from, "type");
    if (!type)
      return type.error();
    if (*type == "const_string")
      return read_text(where, from);
    if (*type == "json_schema")
      return read_schema(where, from);
    if (*type == "regex")
      return read_within(where, from, "pattern", constraint_kind::regex);
    if (*type == "grammar")
      return read_within(where, from, "grammar", constraint_kind::grammar);
    if (*type == "any_text")
      return read_any_text(where, from, end);
    if (*type == "sequence" || *type == "or")
      return read_elements(where, from, *type, end, depth);
    if (*type == "tag") {
      auto out = read_tag(where, from, depth);
      return out ? result<expression>(out->is) : result<expression>(out.error());
    }
    if (*type == "triggered_tags") {
      if (auto ok = refuse_others(
              where, from,
              {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
          !ok)
        return ok.error();
      const auto tags = list_of(where, from, "tags");
      return tags ? read_triggered(where, from, **tags, "tags", end, depth)
                  : result<expression>(tags.error());
    }
    if (*type == "tags_with_separator")
      return read_separated(where, from, depth);
    return at_place(errc::unsupported_parameter, where,
                    fmt::format("has the type '{}', which is not supported", *type));
  }

  result<expression> read_text(std::string_view where, const json_value& from) {
    if (auto ok = refuse_others(where, from, {"type", "value"}); !ok)
      return ok.error();
    const auto value = text_of(where, from, "value");
    return value ? to_.text(*value) : result<expression>(value.error());
  }

  result<expression> read_schema(const std::string& where, const json_value& from) {
    if (auto ok = refuse_others(where, from, {"type", "json_schema"}); !ok)
      return ok.error();
    const auto* schema = from.find("json_schema");
    if (!schema)
      return wrong(where, "needs 'json_schema'");
    return named(within(where, "json_schema"),
                 read_other_({constraint_kind::json_schema, to_text(*schema)}));
  }

  result<expression> read_within(const std::string& where, const json_value& from, const char* name,
                                 constraint_kind kind) {
    if (auto ok = refuse_others(where, from, {"type", name}); !ok)
      return ok.error();
    const auto text = text_of(where, from, name);
    return text ? named(within(where, name), read_other_({kind, *text}))
                : result<expression>(text.error());
  }

  static result<expression> named(std::string_view where, result<expression> read) {
    if (!read)
      return at_place(read.error().code, where, fmt::format("fails: {}", read.error().message));
    return read;
  }

  result<expression> read_any_text(std::string_view where, const json_value& from,
                                   const texts& end) {
    if (auto ok = refuse_others(where, from, {"type", "excludes"}); !ok)
      return ok.error();
    auto marks = texts_of(where, from, "excludes");
    if (!marks)
      return marks.error();
    marks->insert(marks->end(), end.begin(), end.end());
    return text_outside(*marks);
  }

  expression text_outside(const texts& marks) {
    if (marks.empty())
      return to_.repeat(to_.characters(character_set::all()), 0, std::nullopt);
    const std::vector<std::string_view> views(marks.begin(), marks.end());
    return text_without(to_, views);
  }

  result<expression> read_elements(const std::string& where, const json_value& from,
                                   std::string_view type, const texts& end, std::size_t depth) {
    if (auto ok = refuse_others(where, from, {"type", "elements"}); !ok)
      return ok.error();
    const auto elements = list_of(where, from, "elements");
    if (!elements)
      return elements.error();
    std::vector<expression> out;
    for (const auto& one : (*elements)->items) {
      auto read =
          read_format(fmt::format("{}.elements[{}]", where, out.size()), one, end, depth + 1);
      if (!read)
        return read;
      out.push_back(*read);
    }
    return type == "or" ? to_.either(std::move(out)) : to_.sequence(std::move(out));
  }

  // `end`: a text, or several of which one ends it.
  result<tag> read_tag(const std::string& where, const json_value& from, std::size_t depth) {
    if (!from.is_object())
      return wrong(where, "is not an object");
    const bool is_short = from.find("schema") != nullptr; // of `structures`
    auto ok = is_short ? refuse_others(where, from, {"begin", "schema", "end"})
                       : refuse_others(where, from, {"type", "begin", "content", "end"});
    if (!ok)
      return ok.error();
    const auto begin = text_of(where, from, "begin");
    if (!begin)
      return begin.error();
    const auto* end = from.find("end");
    auto ends =
        end && end->is_string() ? result<texts>(texts{end->text}) : texts_of(where, from, "end");
    if (!ends)
      return ends.error();
    if (ends->empty())
      return wrong(where, "needs 'end', a text");
    const auto* content = from.find(is_short ? "schema" : "content");
    if (!content)
      return wrong(where, "needs 'content'");
    texts marks = *ends;
    std::erase(marks, "");
    auto inner = is_short ? named(within(where, "schema"),
                                  read_other_({constraint_kind::json_schema, to_text(*content)}))
                          : read_format(within(where, "content"), *content, marks, depth + 1);
    if (!inner)
      return inner.error();
    std::vector<expression> closes;
    for (const auto& text : *ends)
      closes.push_back(to_.text(text));
    return tag{*begin, to_.sequence({to_.text(*begin), *inner, to_.either(std::move(closes))})};
  }

  result<std::vector<tag>> read_tags(const std::string& where, const json_value& from,
                                     std::size_t depth) {
    if (from.items.size() > marks_max)
      return wrong(where, "has more than {} tags", marks_max);
    std::vector<tag> out;
    for (const auto& one : from.items) {
      auto read = read_tag(fmt::format("{}[{}]", where, out.size()), one, depth + 1);
      if (!read)
        return read.error();
      out.push_back(*std::move(read));
    }
    return out;
  }

  expression any_of(const std::vector<tag>& tags) {
    std::vector<expression> all;
    for (const auto& one : tags)
      all.push_back(one.is);
    return to_.shared("tag", to_.either(std::move(all)));
  }

  // Text without triggers, in which tags stand: each begins with one of the triggers.
  result<expression> read_triggered(const std::string& where, const json_value& from,
                                    const json_value& list, const char* name, const texts& end,
                                    std::size_t depth) {
    const auto triggers = texts_of(where, from, "triggers");
    auto marks = triggers ? texts_of(where, from, "excludes") : triggers;
    const auto is_needed = flag_of(where, from, "at_least_one");
    const auto is_last = flag_of(where, from, "stop_after_first");
    for (const auto* failed :
         {triggers ? nullptr : &triggers.error(), marks ? nullptr : &marks.error(),
          is_needed ? nullptr : &is_needed.error(), is_last ? nullptr : &is_last.error()})
      if (failed)
        return *failed;
    if (triggers->empty())
      return wrong(where, "needs 'triggers', at least one");
    const auto tags = read_tags(within(where, name), list, depth);
    if (!tags)
      return tags.error();
    for (const auto& one : *tags)
      if (std::none_of(triggers->begin(), triggers->end(),
                       [&](const auto& t) { return one.begin.starts_with(t); }))
        return wrong(where, "has a tag that begins with '{}', and with none of the triggers",
                     one.begin);
    for (const auto& trigger : *triggers)
      if (std::none_of(tags->begin(), tags->end(),
                       [&](const auto& one) { return one.begin.starts_with(trigger); }))
        return wrong(where, "has the trigger '{}', with which no tag begins", trigger);
    marks->insert(marks->end(), triggers->begin(), triggers->end());
    marks->insert(marks->end(), end.begin(), end.end());
    const auto text = to_.shared("text", text_outside(*marks));
    const auto one = any_of(*tags);
    if (*is_last)
      return *is_needed ? one : to_.sequence({text, to_.optional(one)});
    const auto more = to_.repeat(to_.sequence({one, text}), 0, std::nullopt);
    return *is_needed ? to_.sequence({one, text, more}) : to_.sequence({text, more});
  }

  result<expression> read_separated(const std::string& where, const json_value& from,
                                    std::size_t depth) {
    if (auto ok = refuse_others(where, from,
                                {"type", "tags", "separator", "at_least_one", "stop_after_first"});
        !ok)
      return ok.error();
    const auto list = list_of(where, from, "tags");
    if (!list)
      return list.error();
    const auto separator = text_of(where, from, "separator");
    const auto is_needed = flag_of(where, from, "at_least_one");
    const auto is_last = flag_of(where, from, "stop_after_first");
    for (const auto* failed :
         {separator ? nullptr : &separator.error(), is_needed ? nullptr : &is_needed.error(),
          is_last ? nullptr : &is_last.error()})
      if (failed)
        return *failed;
    const auto tags = read_tags(within(where, "tags"), **list, depth);
    if (!tags)
      return tags.error();
    const auto one = any_of(*tags);
    const auto more = to_.repeat(to_.sequence({to_.text(*separator), one}), 0, std::nullopt);
    const auto all = *is_last ? one : to_.sequence({one, more});
    return *is_needed ? all : to_.optional(all);
  }

  grammar_builder& to_;
  const read_constraint& read_other_;
};

} // namespace

result<expression> read_structural_tag(grammar_builder& to, std::string_view source,
                                       const read_constraint& read_other) {
  if (auto ok = check_source(source, "structural tag"); !ok)
    return ok.error();
  const auto parsed = parse_json(source);
  if (!parsed)
    return parsed.error();
  return tag_reader(to, read_other).read(*parsed);
}

} // namespace baton::grammar
