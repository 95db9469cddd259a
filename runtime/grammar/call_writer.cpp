#include "runtime/grammar/call_writer.hpp"

#include "runtime/grammar/automata/control_text.hpp"
#include "runtime/grammar/json_schema/json_grammar.hpp"
#include "runtime/grammar/json_schema/json_schema.hpp"

#include <array>
#include <functional>

namespace baton::grammar {
namespace {

constexpr std::uint32_t name_characters_max = 64; // of an argument that no schema names
constexpr std::size_t name_bytes_max = 256;       // of any argument

class call_writer {
public:
  call_writer(grammar_builder& to, const text::call_row& row, const called_tool& tool)
      : to_(to), row_(row), tool_(tool) {}

  result<expression> json() {
    const auto arguments = read_json();
    if (!arguments)
      return arguments;
    const auto head = fmt::format("{}{{\"name\": {}, \"{}\": ", row_.call_open, quoted(tool_.name),
                                  row_.arguments);
    return to_.sequence({text(head), *arguments, to_.text("}"), text(row_.call_close)});
  }

  result<expression> named_json() {
    const auto arguments = read_json();
    if (!arguments)
      return arguments;
    return to_.sequence({text(row_.call_open), to_.text(tool_.name), aside(), text(row_.name_close),
                         *arguments, row_.ends_by_control ? to_.empty() : text(row_.call_close)});
  }

  result<expression> tagged() {
    std::string_view end = row_.value_close;
    end = end.substr(end.find('<'), end.find_last_of('>') - end.find('<') + 1);
    const bare_text bare{to_.empty(), to_.empty(), end};
    const auto members = read_members(&bare);
    if (!members)
      return members.error();
    const auto member = [&](expression name, expression value) {
      return to_.sequence(
          {text(row_.key_open), name, text(row_.key_close), value, text(row_.value_close)});
    };
    std::vector<expression> all{text(row_.call_open), to_.text(tool_.name), text(row_.name_close)};
    for (const auto& m : members->named) {
      const auto one = member(to_.text(m.name), m.value);
      all.push_back(m.is_required ? one : to_.optional(one));
    }
    if (members->others)
      all.push_back(to_.repeat(member(any_name(), *members->others), 0, std::nullopt));
    all.push_back(text(row_.call_close));
    return to_.sequence(std::move(all));
  }

  // Texts are JSON's, which Python reads alike.
  result<expression> python() {
    const auto members = read_members(nullptr);
    if (!members)
      return members.error();
    return to_.sequence({text(row_.call_open), to_.text(tool_.name), to_.text("("),
                         joined(*members, "=", ", "), to_.text(")")});
  }

  result<expression> gemma() {
    const auto quote = text(row_.quote);
    const bare_text bare{quote, quote, row_.quote};
    const auto members = read_members(&bare);
    if (!members)
      return members.error();
    return to_.sequence({text(row_.call_open), to_.text(tool_.name), to_.text("{"),
                         joined(*members, ":", ","), to_.text("}"), text(row_.call_close)});
  }

private:
  expression text(std::string_view of) { return text_with_controls(to_, of, row_.controls); }

  expression aside() {
    const auto number = row_.aside.find('#');
    if (number == std::string_view::npos)
      return text(row_.aside);
    return to_.sequence({text(row_.aside.substr(0, number)),
                         to_.repeat(to_.byte_range('0', '9'), 1, 3),
                         text(row_.aside.substr(number + 1))});
  }

  result<expression> read_json() {
    return tool_.schema ? read_json_schema(to_, to_text(*tool_.schema))
                        : result<expression>(json_grammar(to_).object());
  }

  // Names are written bare, too.
  result<schema_members> read_members(const bare_text* texts) {
    auto members = read_schema_members(
        to_, tool_.schema ? to_text(*tool_.schema) : std::string(R"({"type":"object"})"), texts);
    if (!members)
      return members;
    const std::string_view never = row_.syntax == text::call_syntax::tagged
                                       ? std::string_view("<>\t\r\n")
                                       : std::string_view("=:,(){}[]\"'<> \t\r\n");
    for (const auto& m : members->named)
      if (m.name.empty() || m.name.size() > name_bytes_max || m.name.starts_with(' ') ||
          m.name.ends_with(' ') || m.name.find_first_of(never) != std::string::npos)
        return fail(errc::unsupported_parameter,
                    "this model's format of calls cannot write the name '{}'",
                    m.name.substr(0, 64));
    return members;
  }

  expression any_name() {
    const auto letter = character_set{{'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
    auto more = letter;
    more.add('0', '9');
    return to_.sequence(
        {to_.characters(letter), to_.repeat(to_.characters(more), 0, name_characters_max - 1)});
  }

  // name, `equals`, value, with `comma` between two. Each suffix of the members is a rule, in two
  // forms, so that an optional member can be left out with its comma.
  expression joined(const schema_members& members, std::string_view equals,
                    std::string_view comma) {
    if (members.others) {
      const auto one =
          to_.shared("member", to_.sequence({any_name(), to_.text(equals), *members.others}));
      return to_.optional(
          to_.sequence({one, to_.repeat(to_.sequence({to_.text(comma), one}), 0, std::nullopt)}));
    }
    auto following = to_.empty(), first = to_.empty();
    for (auto m = members.named.rbegin(); m != members.named.rend(); ++m) {
      const auto one = to_.shared(
          "member", to_.sequence({to_.text(m->name), to_.text(equals), m->value, following}));
      const auto next = to_.sequence({to_.text(comma), one});
      first = to_.shared("members", m->is_required ? one : to_.either({one, first}));
      following = to_.shared("members", m->is_required ? next : to_.either({next, following}));
    }
    return first;
  }

  grammar_builder& to_;
  const text::call_row& row_;
  const called_tool& tool_;
};

// Indexed by call_syntax.
constexpr std::array writers{&call_writer::json, &call_writer::named_json, &call_writer::tagged,
                             &call_writer::python, &call_writer::gemma};

} // namespace

result<expression> write_call(grammar_builder& to, const text::call_row& row,
                              const called_tool& tool) {
  call_writer writer(to, row, tool);
  return (writer.*writers[static_cast<std::size_t>(row.syntax)])();
}

} // namespace baton::grammar
