// Tool calls under the grammar of each format. Goal: the parser reads what the grammar writes, its
// arguments keep the schema, and the grammar refuses everything else. Method: random texts of the
// grammar, also in pieces; changed ones.
#include "tests/unit/gateway/api/openai/call_cuts.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr const char* grammar_tools =
    R"([{"name":"get_weather","schema":{"type":"object","properties":{"city":{"type":"string"},)"
    R"("days":{"type":"integer","minimum":1,"maximum":9},"exact":{"type":"boolean"},)"
    R"("unit":{"enum":["C","F"]},"at":{"type":["string","null"]},)"
    R"("tags":{"type":"array","items":{"type":"string"},"maxItems":2}},)"
    R"("required":["city","days"],"additionalProperties":false}},)"
    R"({"name":"f","schema":{"type":"object","properties":{}}}])";

constraint calls_in(call_format format, bool has_text) {
  return {constraint_kind::calls,
          fmt::format(R"({{"format":"{}","calls_max":3,"has_text":{},"tools":{}}})",
                      text::row_of(format).name, has_text, grammar_tools)};
}

// A random text of the grammar. Bare texts end by a mark of several bytes, which random bytes never
// find, so whole marks are tried, too.
std::optional<std::string> random_calls(grammar::automaton& of, const text::call_row& row,
                                        std::mt19937& random) {
  const std::vector<std::string_view> phrases{row.value_close, row.quote,      row.key_open, "\"",
                                              "get_weather",   row.list_close, "}",          "]"};
  std::string text;
  auto s = of.start();
  while (text.size() < 1500) {
    if (of.accepts(s) && random() % 4 == 0) {
      return text;
    }
    const auto phrase = random() % 3 == 0 ? phrases[random() % phrases.size()] : "";
    auto next = s;
    for (const char byte : phrase) {
      next = of.step(next, static_cast<std::uint8_t>(byte));
    }
    if (!phrase.empty() && next != grammar::automaton::dead) {
      text += phrase;
      s = next;
      continue;
    }
    std::vector<std::uint8_t> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (of.step(s, static_cast<std::uint8_t>(byte)) != grammar::automaton::dead) {
        bytes.push_back(static_cast<std::uint8_t>(byte));
      }
    }
    if (bytes.empty()) {
      CHECK(of.accepts(s));
      return text;
    }
    text += static_cast<char>(bytes[random() % bytes.size()]);
    s = of.step(s, static_cast<std::uint8_t>(text.back()));
  }
  return std::nullopt;
}

// As a client sees it: control tokens as their texts.
std::string without_control_bytes(std::string text) {
  std::erase(text, '\xFF');
  return text;
}

void check_arguments(const call_delta::part& call) {
  CAPTURE(call.arguments);
  const auto read = grammar::parse_json(call.arguments);
  REQUIRE(read);
  if (call.name == "f") {
    CHECK(read->members.empty());
    return;
  }
  const auto* city = read->find("city");
  const auto* days = read->find("days");
  REQUIRE((city && days));
  CHECK(city->is_string());
  CHECK((days->is_number() && days->text.size() == 1 && days->text != "0"));
  for (const auto& [name, value] : read->members) {
    CAPTURE(name);
    CHECK((name != "exact" || value.is_boolean()));
    CHECK((name != "unit" || value.text == "C" || value.text == "F"));
    CHECK((name != "at" || value.is_string() || value.is == grammar::json_value::kind::null));
    CHECK((name != "tags" || value.is_array()));
  }
}

} // namespace

TEST_CASE("the parser reads what the grammar writes, and its arguments keep the schema") {
  std::mt19937 random(5);
  for (int f = 0; f <= static_cast<int>(call_format_last); ++f) {
    const auto format = static_cast<call_format>(f);
    CAPTURE(text::row_of(format).name);
    const auto schema = grammar::parse_json(grammar_tools).value();
    const auto reads = std::make_shared<const call_reading>(call_reading{
        .format = format,
        .names = {"get_weather", "f"},
        .is_constrained = true,
        .schemas = {*schema.items[0].find("schema"), *schema.items[1].find("schema")}});
    auto of = automaton_of(calls_in(format, /*has_text=*/false));
    int found = 0;
    for (int i = 0; i < 40; ++i) {
      const auto text = random_calls(of, text::row_of(format), random);
      if (!text) {
        continue;
      }
      const auto answer = without_control_bytes(*text);
      CAPTURE(answer);
      const auto read = gateway::read_calls(answer, reads);
      CHECK(read.text.empty());
      REQUIRE(!read.calls.empty());
      for (const auto& call : read.calls) {
        check_arguments(call);
      }
      found += 1;
      if (i < 4) {
        test::read_calls(reads, answer); // in any pieces
      }
    }
    CHECK(found > 5);
  }
}

TEST_CASE("the grammar of each format refuses other names and arguments") {
  for (int f = 0; f <= static_cast<int>(call_format_last); ++f) {
    const auto format = static_cast<call_format>(f);
    CAPTURE(text::row_of(format).name);
    auto of = automaton_of(calls_in(format, /*has_text=*/false));
    CHECK_FALSE(matches(of, ""));
    CHECK_FALSE(matches(of, "Hello."));
    std::mt19937 random(3);
    std::optional<std::string> text;
    for (int i = 0; i < 50 && (!text || text->find("get_weather") == std::string::npos); ++i) {
      text = random_calls(of, text::row_of(format), random);
    }
    REQUIRE(text);
    REQUIRE(matches(of, *text));
    auto other = *text;
    other.replace(other.find("get_weather"), 11, "get_whether");
    CHECK_FALSE(matches(of, other));
    other = *text;
    other.replace(other.find("days"), 4, "dais"); // it is required
    CHECK_FALSE(matches(of, other));
    CHECK_FALSE(matches(of, *text + "x"));
  }
}

TEST_CASE("text may replace calls in each format, and not contain what begins them") {
  for (int f = 0; f <= static_cast<int>(call_format_last); ++f) {
    const auto format = static_cast<call_format>(f);
    const auto& row = text::row_of(format);
    CAPTURE(row.name);
    auto of = automaton_of(calls_in(format, /*has_text=*/true));
    const auto head = std::string(row.text_open);
    CHECK(matches(of, head + "Hello \xC3\xA9.\n"));
    CHECK(matches(of, head));
    for (const auto mark : {row.mark, row.other_mark}) {
      if (!mark.empty()) {
        CHECK_FALSE(matches(of, head + "Hello " + std::string(mark) + "x"));
      }
    }
  }
}
