// The formats of tool calls that are no JSON objects. Goal: each is read, with values of the types
// that the tool's schema says, and malformed calls stay text. The result does not depend on the
// pieces, and the parser reads what the grammar writes. Method: tables, each answer cut into two at
// every place; random texts of the grammar.
#include "tests/unit/gateway/api/openai/call_cuts.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr const char* weather_schema =
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},)"
    R"("exact":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},)"
    R"("at":{"anyOf":[{"type":"string"},{"type":"null"}]},"zip":{"type":"string"},)"
    R"("size":{"$ref":"#/$defs/size"}},"$defs":{"size":{"enum":["1","2"]}}})";

std::shared_ptr<const call_reading> typed(call_format format, bool is_constrained = false) {
  return std::make_shared<const call_reading>(
      call_reading{.format = format,
                   .names = {"f", "get_weather"},
                   .is_constrained = is_constrained,
                   .schemas = {{}, grammar::parse_json(weather_schema).value()}});
}

struct format_row {
  std::string text, wanted;
  bool is_grammatical = false; // the grammar could have written it
};

struct format_rows {
  call_format format;
  std::vector<format_row> rows;
  std::vector<std::string> texts; // none of them is a call
};

const format_rows qwen{
    call_format::qwen_xml,
    {
        {"<tool_call>\n<function=f>\n</function>\n</tool_call>", "'' 0:f{}", true},
        {"I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome "
         "\"x\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
         R"('I look.' 0:get_weather{"city": "Rome \"x\"", "days": 3})", true},
        // Texts keep their lines, and are texts whatever they look like.
        {"<tool_call>\n<function=get_weather>\n<parameter=city>\n\na\nb <p> </par \xC3\xA9\n\n"
         "</parameter>\n<parameter=zip>\n0123\n</parameter>\n</function>\n</tool_call>",
         "'' 0:get_weather{\"city\": \"\\na\\nb <p> </par \xC3\xA9\\n\", \"zip\": \"0123\"}", true},
        {"<tool_call>\n<function=get_weather>\n<parameter=exact>\nTrue\n</parameter>\n"
         "<parameter=tags>\n[\"a\",\n\"b\"]\n</parameter>\n<parameter=at>\nnull\n</parameter>\n"
         "<parameter=size>\n1\n</parameter>\n</function>\n</tool_call>",
         R"('' 0:get_weather{"exact": true, "tags": ["a", "b"], "at": null, "size": "1"})", false},
        {"<tool_call>\n<function=get_weather>\n<parameter=at>\n7\n</parameter>\n<parameter=days>\n"
         "soon\n</parameter>\n</function>\n</tool_call>",
         R"('' 0:get_weather{"at": "7", "days": "soon"})"},
        // An argument without a schema is what it looks like.
        {"<tool_call>\n<function=f>\n<parameter=a>\n{\"b\": [1, 2.50]}\n</parameter>\n"
         "<parameter=c>\nx y\n</parameter>\n</function>\n</tool_call>",
         R"('' 0:f{"a": {"b": [1, 2.50]}, "c": "x y"})", false},
        {"<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n"
         "</function>\n</tool_call> so",
         "' so' 0:f{} 1:f{}", true},
        // Without the first mark, without line ends, without the last mark.
        {"Now <function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
         "'Now' 0:f{\"a\": \"x\"}"},
        {"<tool_call><function=f><parameter=a>x</parameter></function></tool_call>",
         "'' 0:f{\"a\": \"x\"}"},
        {"<tool_call>\n<function=f>\n</function>\n</tool", "'' 0:f{}", true},
        {"<tool_call>\n<function=f>\n</func", "'' 0:f{}", true},
        // A call behind a malformed one.
        {"<tool_call>\n<function=g>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n"
         "</function>\n</tool_call>",
         "'<tool_call>\n<function=g>\n</function>\n</tool_call>' 0:f{}"},
    },
    {"<tool_call>", "<tool_call>\n<function=", "a <function=f", "<tool_call>\n<function=f>\nx",
     "<tool_call>\n<function=f>\n<parameter=a>\nx", "<tool_call>\n<function=ff>\n</function>",
     "<tool_call>\n<function=f>\n<parameter=>\nx\n</parameter>\n</function>",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "1 < 2 <tool"}};

const format_rows glm{
    call_format::glm,
    {
        {"<tool_call>f\n</tool_call>", "'' 0:f{}", true},
        {"So:\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome\n</arg_value>\n"
         "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
         R"('So:' 0:get_weather{"city": "Rome\n", "days": 3})", true},
        // GLM 4.7.
        {"<tool_call>get_weather<arg_key>zip</arg_key><arg_value>007</arg_value></tool_call>"
         "<tool_call>f</tool_call>",
         R"('' 0:get_weather{"zip": "007"} 1:f{})", true},
        {"<tool_call>get_weather\n<arg_key>tags</arg_key>\n<arg_value>[\"a\"]</arg_value>\n"
         "</tool_call>\n",
         R"('' 0:get_weather{"tags": ["a"]})", true},
        {"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value></arg_value>\n</tool_ca",
         R"('' 0:f{"a": ""})", false},
    },
    {"<tool_call>g\n</tool_call>", "<tool_call>f\n<arg_key>a</arg_key>\n</tool_call>",
     "<tool_call>f g</tool_call>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x"}};

const format_rows mistral_named{
    call_format::mistral_named,
    {
        {"[TOOL_CALLS]f[ARGS]{}", "'' 0:f{}", true},
        {"I look. [TOOL_CALLS]get_weather[ARGS]{\"city\": \"[ARGS] }\"}[TOOL_CALLS]f[ARGS]{}",
         R"('I look.' 0:get_weather{"city": "[ARGS] }"} 1:f{})", true},
        {"[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"a\": {\"b\": \"\\\"\"}}\n",
         R"('' 0:f{"a": {"b": "\""}})", true},
        {"[TOOL_CALLS]f[ARGS]{} and", "' and' 0:f{}", true},
    },
    {"[TOOL_CALLS]", "[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]f[ARGS]{\"a\": ", "[TOOL_CALLS]f {}",
     "[TOOL_CALLS]f[ARGS][]", "[TOOL_CALLS]f[ARGS]{\"a\": \"b\",}", "[TOOL"}};

const format_rows harmony{
    call_format::harmony,
    {
        {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", "'' 0:f{}",
         true},
        {"I look.<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": "
         "\"<|call|>\"}",
         R"('I look.' 0:f{"a": "<|call|>"})", true},
        {"<|channel|>commentary to=functions.f<|message|>{\"a\": 1}", R"('' 0:f{"a": 1})", true},
    },
    {"<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}<|call|>",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>[]",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"}};

const format_rows pythonic{
    call_format::pythonic,
    {
        {"[f()]", "'' 0:f{}", true},
        {" [get_weather(city=\"Rome, [x] (y)\", days=3), f(a=None, b={\"c\": [1, 'd\\n']})]\n",
         "'' 0:get_weather{\"city\": \"Rome, [x] (y)\", \"days\": 3} 1:f{\"a\": null, \"b\": "
         "{\"c\": [1, "
         "\"d\\n\"]}}",
         true},
        {"<|python_start|>[f(a='it\\'s', b=(1, -2.5), c=True,)]",
         R"('' 0:f{"a": "it's", "b": [1, -2.5], "c": true})", true},
        {"[f(a='\\u00e9\\x41\\U0001F600', b=[])] x",
         "' x' 0:f{\"a\": \"\xC3\xA9"
         "A\xF0\x9F\x98\x80\", \"b\": []}",
         true},
        {"[f(a=1)", R"('' 0:f{"a": 1})", true},
    },
    {"[1, 2]", "[g()]", "[f(1)]", "[f(a=b)]", "[f(a=1) f()]", "See [f(a=1)]", "[f(a='x]",
     "[f(a=", "[", "[]", "f()", "[f(a=1, g())]"}};

const format_rows lfm2{
    call_format::lfm2,
    {
        {"<|tool_call_start|>[f()]<|tool_call_end|>", "'' 0:f{}", true},
        {"Yes. <|tool_call_start|>[f(a=\"b\"), get_weather(days=2)]<|tool_call_end|> Done.",
         R"('Yes. Done.' 0:f{"a": "b"} 1:get_weather{"days": 2})", true},
        {"<|tool_call_start|>[f(a='<|tool_call_end|>')]<|tool_call_end|>"
         "<|tool_call_start|>[f()]",
         R"('' 0:f{"a": "<|tool_call_end|>"} 1:f{})", true},
    },
    {"<|tool_call_start|>[g()]<|tool_call_end|>", "<|tool_call_start|>", "[f()]",
     "<|tool_call_start|>[f(] <|tool_call_end|>"}};

const format_rows kimi{
    call_format::kimi,
    {
        {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"
         "}"
         "<|tool_call_end|><|tool_calls_section_end|>",
         "'' 0:f{}", true},
        {"A <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
         "<|tool_call_argument_begin|>{\"city\": \"<|tool_call_end|>\"}<|tool_call_end|>"
         "<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
         "<|tool_calls_section_end|> B",
         R"('A B' 0:get_weather{"city": "<|tool_call_end|>"} 1:f{})", true},
        {"<|tool_calls_section_begin|> <|tool_call_begin|>functions.f:12 "
         "<|tool_call_argument_begin|> {\"a\": 1} <|tool_call_end|>\n<|tool_calls_sec",
         R"('' 0:f{"a": 1})", true},
        // A call behind a malformed one, in the same list.
        {"<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{"
         "}"
         "<|tool_call_end|><|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{}"
         "<|tool_call_end|><|tool_calls_section_end|>",
         "'<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>"
         "{}"
         "<|tool_call_end|>' 0:f{}"},
    },
    {"<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0",
     "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\"}<|tool_call_end|>"}};

const format_rows deepseek31{
    call_format::deepseek31,
    {
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
         "<｜tool▁calls▁end｜>",
         "'' 0:f{}", true},
        {"Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Ro"
         "me\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
         "1}<｜tool▁call▁end｜>",
         R"('Well.' 0:get_weather{"city": "Rome"} 1:f{"a": 1})", true},
    },
    {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}",
     "<｜tool▁call▁begin｜>f {}<｜tool▁call▁end｜>", "<｜tool"}};

const format_rows deepseek{
    call_format::deepseek,
    {
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
         "\"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
         "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         R"('' 0:f{"a": "```"} 1:f{})", true},
        {"A\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n``",
         "'A' 0:f{}", true},
    },
    {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"}};

const format_rows gemma4{
    call_format::gemma4,
    {
        {"<|tool_call>call:f{}<tool_call|>", "'' 0:f{}", true},
        {"Hm. <|tool_call>call:get_weather{city:<|\"|>Rome, {\"x\"}\nit's<|\"|>,days:3,exact:true,"
         "tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>]}<tool_call|><|tool_call>call:f{}<tool_call|>",
         R"('Hm.' 0:get_weather{"city": "Rome, {\"x\"}\nit's", "days": 3, "exact": true, )"
         R"("tags": ["a", "b"]} 1:f{})",
         true},
        {"<|tool_call>call:f{a:{b:null,c:[1,-2.5],<|\"|>d e<|\"|>:<|\"|><|\"|>}}<tool_call|> x",
         R"(' x' 0:f{"a": {"b": null, "c": [1, -2.5], "d e": ""}})", true},
        {"<|tool_call>call:f{a:\"json\"}<tool_ca", R"('' 0:f{"a": "json"})", true},
    },
    {"<|tool_call>", "<|tool_call>call:g{}<tool_call|>", "<|tool_call>call:f{a:b}<tool_call|>",
     "<|tool_call>call:f{a:<|\"|>b}<tool_call|>", "<|tool_call>call:f{a}<tool_call|>",
     "<|tool_call>call:f{a:1 b:2}<tool_call|>"}};

const format_rows function_gemma{
    call_format::function_gemma,
    {{"<start_function_call>call:f{a:<escape>x:y<escape>,b:2}<end_function_call>",
      R"('' 0:f{"a": "x:y", "b": 2})", true}},
    {"<start_function_call>call:f{a:<escape>x}<end_function_call>"}};

const format_rows granite{
    call_format::granite,
    {
        {"<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": "
         "{\"a\": 1}}]",
         R"('' 0:f{} 1:f{"a": 1})", true},
        {"Yes.\n<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}] x", "'Yes. x' 0:f{}", true},
    },
    {"<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]", "<|tool_call|>[1]",
     "[{\"name\": \"f\", \"arguments\": {}}]"}};

const format_rows* const all_formats[] = {&qwen,     &glm,    &mistral_named,  &harmony,
                                          &pythonic, &lfm2,   &kimi,           &deepseek31,
                                          &deepseek, &gemma4, &function_gemma, &granite};

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

TEST_CASE("each format is read in any pieces, and what is malformed stays text") {
  for (const auto* format : all_formats) {
    CAPTURE(text::row_of(format->format).name);
    for (const auto& row : format->rows) {
      CAPTURE(row.text);
      CHECK(read_calls(typed(format->format), row.text) == row.wanted);
      if (row.is_grammatical && format->format != call_format::granite) {
        CHECK(read_calls(typed(format->format, /*is_constrained=*/true), row.text) == row.wanted);
      }
    }
    for (const auto& text : format->texts) {
      CAPTURE(text);
      CHECK(read_calls(typed(format->format), text) == "'" + text + "'");
    }
  }
}

TEST_CASE("every format gives text without calls unchanged") {
  for (int f = 0; f <= static_cast<int>(call_format_last); ++f) {
    CAPTURE(f);
    for (const std::string text : {"Hello.", "a < b | c [d] {e} (f)", "\n\n x \n", "`1` <|x|>"}) {
      CHECK(read_calls(typed(static_cast<call_format>(f)), text) == "'" + text + "'");
    }
  }
}

TEST_CASE("the name of a call comes first, and a text in pieces, under the grammar") {
  call_parser parser(typed(call_format::qwen_xml, /*is_constrained=*/true));
  call_delta d;
  parser.add("<tool_call>\n<function=get_weather>\n", d);
  CHECK(shown(d) == "'' 0:get_weather");
  d = {};
  parser.add("<parameter=city>\nNew", d);
  CHECK(shown(d) == "'' 0:{\"city\": \"New");
  d = {};
  parser.add(" York\n</par", d);
  CHECK(shown(d) == "'' 0: York");
  d = {};
  parser.add("ameter>\n<parameter=days>\n1", d);
  CHECK(shown(d) == "'' 0:\", \"days\": ");
  d = {};
  parser.add("2\n</parameter>\n</function>", d);
  CHECK(shown(d) == "'' 0:12}");

  call_parser named(typed(call_format::mistral_named, /*is_constrained=*/true));
  d = {};
  named.add("[TOOL_CALLS]f[ARGS]{\"a", d);
  CHECK(shown(d) == "'' 0:f{\"a");
  d = {};
  named.add("\": 1", d);
  named.finish(d); // cut short
  CHECK(shown(d) == "'' 0:\": 1");
}

TEST_CASE("the parser reads what the grammar writes, and its arguments keep the schema") {
  std::mt19937 random(5);
  for (int f = 0; f <= static_cast<int>(call_format_last); ++f) {
    const auto format = static_cast<call_format>(f);
    CAPTURE(text::row_of(format).name);
    auto how = *typed(format, /*is_constrained=*/true);
    auto schema = grammar::parse_json(grammar_tools).value();
    how.names = {"get_weather", "f"};
    how.schemas = {*schema.items[0].find("schema"), *schema.items[1].find("schema")};
    const auto reads = std::make_shared<const call_reading>(how);
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
