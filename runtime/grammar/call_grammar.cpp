#include "runtime/grammar/call_grammar.hpp"

#include "runtime/grammar/automata/control_text.hpp"
#include "runtime/grammar/automata/text_reader.hpp"
#include "runtime/grammar/automata/text_without.hpp"
#include "runtime/grammar/call_writer.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <charconv>
#include <optional>

namespace baton::grammar {
namespace {

constexpr std::uint32_t calls_limit = 128; // more than in any answer

struct call_request {
  const text::call_row* row = nullptr;
  std::uint32_t calls_max = 1;
  bool has_text = false;
  const json_value* tools = nullptr;
  std::optional<constraint> otherwise;
};

error wrong(std::string_view what) {
  return fail(errc::invalid_value, "a constraint of calls: {}", what);
}

std::optional<std::uint32_t> number_of(const json_value* from) {
  const auto digits = from && from->is_number() ? std::string_view(from->text) : std::string_view();
  std::uint32_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return code == std::errc{} && end == digits.data() + digits.size() ? std::optional(number)
                                                                     : std::nullopt;
}

result<constraint> read_otherwise(const json_value& from) {
  const auto kind = number_of(from.find("kind"));
  const auto* text = from.find("text");
  const auto is = kind && *kind <= static_cast<std::uint32_t>(constraint_kind_last)
                      ? static_cast<constraint_kind>(*kind)
                      : constraint_kind::calls;
  if (is == constraint_kind::calls || is == constraint_kind::free || !text || !text->is_string())
    return wrong("'otherwise' has a kind of constraint, other than calls, and its text");
  return constraint{is, text->text};
}

result<call_request> read_request(const json_value& from) {
  call_request out;
  const auto* format = from.find("format");
  for (int f = 0; format && f <= static_cast<int>(call_format_last); ++f)
    if (const auto& row = text::row_of(static_cast<call_format>(f)); row.name == format->text)
      out.row = &row;
  if (!out.row)
    return wrong("'format' is not known");
  const auto most = number_of(from.find("calls_max"));
  if (!most || *most < 1 || *most > calls_limit)
    return wrong("'calls_max' is not in range");
  out.calls_max = *most;
  const auto* has_text = from.find("has_text");
  out.has_text = has_text && has_text->is_boolean() && has_text->boolean;
  out.tools = from.find("tools");
  if (!out.tools || !out.tools->is_array() || out.tools->items.empty())
    return wrong("'tools' is an array, at least of one");
  if (const auto* other = from.find("otherwise")) {
    auto read = read_otherwise(*other);
    if (!read)
      return read.error();
    out.otherwise = *std::move(read);
  }
  return out;
}

class call_reader {
public:
  call_reader(grammar_builder& to, const call_request& request)
      : to_(to), row_(*request.row), request_(request) {}

  result<expression> read() {
    std::vector<expression> each;
    for (const auto& tool : request_.tools->items) {
      const auto* name = tool.find("name");
      if (!name || !name->is_string() || name->text.empty())
        return wrong("a tool has a name");
      auto one = write_call(to_, row_, {.name = name->text, .schema = tool.find("schema")});
      if (!one)
        return error{one.error().code,
                     fmt::format("the parameters of '{}': {}", name->text, one.error().message),
                     one.error().param};
      each.push_back(*one);
    }
    const auto call = to_.shared("call", to_.either(std::move(each)));
    const auto more = to_.repeat(to_.sequence({text(row_.between), call}), 0, calls_max() - 1);
    const auto calls = to_.sequence({text(row_.list_open), call, more, text(list_close())});
    return request_.has_text ? with_text(calls) : calls;
  }

  expression otherwise(expression other) { return to_.sequence({text(row_.text_open), other}); }

private:
  std::uint32_t calls_max() const { return row_.has_parallel ? request_.calls_max : 1; }

  // Python's list ends with the last call.
  std::string_view list_close() const {
    return row_.syntax == text::call_syntax::python ? row_.call_close : row_.list_close;
  }

  expression text(std::string_view of) { return text_with_controls(to_, of, row_.controls); }

  // If calls have a mark, text precedes it. If calls start the answer, text starts differently.
  expression with_text(expression calls) {
    std::vector<std::string_view> marks{row_.mark};
    if (!row_.other_mark.empty())
      marks.push_back(row_.other_mark);
    if (!row_.text_open.empty())
      return to_.either({calls, otherwise(text_without(to_, marks))});
    if (!row_.mark.empty())
      return to_.sequence({text_without(to_, marks), to_.optional(calls)});
    const auto begins = row_.list_open.empty() ? '{' : row_.list_open.front();
    character_set space{{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
    character_set first = space;
    first.add(static_cast<char32_t>(begins));
    const auto any = to_.repeat(to_.characters(character_set::all()), 0, std::nullopt);
    const auto text =
        to_.sequence({to_.repeat(to_.characters(space), 0, std::nullopt),
                      to_.optional(to_.sequence({to_.characters(first.inverted()), any}))});
    return to_.either({calls, text});
  }

  grammar_builder& to_;
  const text::call_row& row_;
  const call_request& request_;
};

} // namespace

result<expression>
read_calls(grammar_builder& to, std::string_view source,
           const std::function<result<expression>(const constraint&)>& read_other) {
  if (auto ok = check_source(source, "a constraint of calls"); !ok)
    return ok.error();
  const auto parsed = parse_json(source);
  if (!parsed)
    return parsed.error();
  const auto request = read_request(*parsed);
  if (!request)
    return request.error();
  call_reader reader(to, *request);
  auto calls = reader.read();
  if (!calls || !request->otherwise)
    return calls;
  const auto other = read_other(*request->otherwise);
  return other ? to.either({*calls, reader.otherwise(*other)}) : other;
}

} // namespace baton::grammar
