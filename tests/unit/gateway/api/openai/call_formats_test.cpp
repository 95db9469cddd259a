// The formats of tool calls that are no JSON objects. Goal: each is read, with values of the types
// that the tool's schema says, and malformed calls stay text. The result does not depend on the
// pieces. Method: tables, each answer cut into two at every place; random texts of the relevant
// pieces.
#include "tests/unit/gateway/api/openai/call_cuts.hpp"

#include <random>

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
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "1 < 2 <tool",
     "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n"
     "</function>\n</tool_call>"}};

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
     "[f(a=", "[", "[]", "f()", "[f(a=1, g())]", "[f(a=1, a=2)]", "[f(a={'b': 1, 'b': 2})]"}};

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

TEST_CASE("random answers of each format lose no text and give the same result for any pieces") {
  std::mt19937 random(17);
  for (const auto* format : all_formats) {
    const auto& row = text::row_of(format->format);
    CAPTURE(row.name);
    std::vector<std::string> pieces{"f",          "get_weather",
                                    "city",       "{}",
                                    "{\"a\": 1}", "\n",
                                    " ",          "x",
                                    "\"",         "'",
                                    "(",          ")",
                                    "=",          ",",
                                    ":",          "[",
                                    "]",          "{",
                                    "}",          "<",
                                    "\\",         "city=\"Rome\"",
                                    "days:3",     "```json\n"};
    for (const auto part : {row.mark, row.other_mark, row.list_open, row.call_open, row.call_close,
                            row.between, row.list_close, row.aside, row.name_close, row.key_open,
                            row.key_close, row.value_close, row.quote, row.lead}) {
      for (int n = 0; n < 3 && !part.empty(); ++n) {
        pieces.emplace_back(part);
      }
    }
    for (const auto& whole : format->rows) {
      pieces.push_back(whole.text.substr(0, random() % (whole.text.size() + 1)));
    }
    for (int round = 0; round < 400; ++round) {
      std::string text;
      for (auto count = random() % 12; count > 0; --count) {
        text += pieces[random() % pieces.size()];
      }
      CAPTURE(text);
      const auto how = typed(format->format, random() % 2 == 0);
      const auto whole = read_cut(how, text, {});
      std::vector<std::size_t> ends;
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (random() % 3 == 0) {
          ends.push_back(i);
        }
      }
      CHECK(read_cut(how, text, ends) == whole);
      if (whole.find("' 0:") == std::string::npos) { // no call: every byte is there
        CHECK(whole == "'" + text + "'");
      }
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
  parser.add("<parameter=", d);
  CHECK(d.is_empty());
  parser.add("city>\nNew", d);
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
