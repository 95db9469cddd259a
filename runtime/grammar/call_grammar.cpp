#include "runtime/grammar/call_grammar.hpp"

#include "runtime/grammar/automata/text_reader.hpp"
#include "runtime/grammar/json_schema/json_grammar.hpp"
#include "runtime/grammar/json_schema/json_schema.hpp"
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
  constexpr auto calls = static_cast<std::uint32_t>(constraint_kind::calls);
  if (!kind || *kind >= calls || !text || !text->is_string())
    return wrong("'otherwise' has a kind of constraint, other than calls, and its text");
  return constraint{static_cast<constraint_kind>(*kind), text->text};
}

result<call_request> read_request(const json_value& from) {
  call_request out;
  const auto* format = from.find("format");
  for (const auto f : {call_format::hermes, call_format::llama3, call_format::mistral})
    if (format && format->text == text::row_of(f).name)
      out.row = &text::row_of(f);
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
      auto one = read_call(tool);
      if (!one)
        return one;
      each.push_back(*one);
    }
    const auto call = to_.shared("call", to_.either(std::move(each)));
    const auto more =
        to_.repeat(to_.sequence({to_.text(row_.between), call}), 0, request_.calls_max - 1);
    const auto calls =
        to_.sequence({to_.text(row_.list_open), call, more, to_.text(row_.list_close)});
    return request_.has_text ? with_text(calls) : calls;
  }

private:
  result<expression> read_call(const json_value& tool) {
    const auto* name = tool.find("name");
    if (!name || !name->is_string() || name->text.empty())
      return wrong("a tool has a name");
    expression arguments = json_.object();
    if (const auto* schema = tool.find("schema")) {
      auto is = read_json_schema(to_, to_text(*schema));
      if (!is)
        return error{is.error().code,
                     fmt::format("the parameters of '{}': {}", name->text, is.error().message),
                     is.error().param};
      arguments = *is;
    }
    const auto head = fmt::format("{}{{\"name\": {}, \"{}\": ", row_.call_open, quoted(name->text),
                                  row_.arguments);
    return to_.sequence({to_.text(head), arguments, to_.text("}"), to_.text(row_.call_close)});
  }

  // If calls have a mark, text precedes it. If calls start the answer, text starts differently.
  expression with_text(expression calls) {
    if (!row_.mark.empty())
      return to_.sequence({text_without(to_, row_.mark), to_.optional(calls)});
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
  json_grammar json_{to_};
};

} // namespace

// One rule per number of mark characters at the text's end (Knuth, Morris and Pratt, 1977), for
// marks whose first character occurs in them once.
expression text_without(grammar_builder& to, std::string_view mark) {
  std::vector<rule_id> at;
  for (std::size_t i = 0; i < mark.size(); ++i)
    at.push_back(to.add_rule("text"));
  const auto first = static_cast<char32_t>(mark.front());
  for (std::size_t i = 0; i < mark.size(); ++i) {
    const auto next = static_cast<char32_t>(mark[i]);
    std::vector<expression> all{to.empty()};
    if (i + 1 < mark.size())
      all.push_back(to.sequence({to.characters({{next, next}}), to.call(at[i + 1])}));
    character_set others{{next, next}};
    if (next != first) {
      all.push_back(to.sequence({to.characters({{first, first}}), to.call(at[1])}));
      others.add(first);
    }
    all.push_back(to.sequence({to.characters(others.inverted()), to.call(at[0])}));
    to.define(at[i], to.either(std::move(all)));
  }
  return to.call(at.front());
}

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
  auto calls = call_reader(to, *request).read();
  if (!calls || !request->otherwise)
    return calls;
  const auto other = read_other(*request->otherwise);
  return other ? to.either({*calls, *other}) : other;
}

} // namespace baton::grammar
