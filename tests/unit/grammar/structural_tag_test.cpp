// XGrammar's structural tags: formats of its documentation, and errors.
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using baton::test::matches;
using baton::test::refusal_of;

namespace {

constraint tags(std::string source) {
  return {constraint_kind::tags, std::move(source)};
}

constraint format(const std::string& is) {
  return tags(R"({"type":"structural_tag","format":)" + is + "}");
}

void check(const constraint& c, std::initializer_list<const char*> good,
           std::initializer_list<const char*> bad) {
  auto of = test::automaton_of(c);
  for (const char* text : good)
    CHECK_MESSAGE(matches(of, text), text);
  for (const char* text : bad)
    CHECK_MESSAGE(!matches(of, text), text);
}

} // namespace

TEST_CASE("structures behind triggers, as vLLM's first form has them") {
  const auto c = tags(R"-({"type": "structural_tag", "triggers": ["<function="], "structures": [
    {"begin": "<function=get>", "schema": 
       {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}, "end": "</function>"},
    {"begin": "<function=stop>", "schema": {"enum":[null]}, "end": "</function>"}]})-");
  check(c,
        {"", "any text", "a < b <functio", R"(I call <function=get>{"n": 1}</function> now)",
         R"(<function=stop>null</function><function=get>{"n":2}</function>)", "\xc3\xa9"},
        {"<function=", "<function=other>{}</function>", R"(<function=get>{"n":"x"}</function>)",
         R"(<function=get>{"n":1})", "x<function=get>", "\xff"});
}

TEST_CASE("triggered tags may be required, or be the last") {
  const auto of = [](const char* further) {
    return format(fmt::format(R"({{"type":"triggered_tags","triggers":["<a"],"tags":[
      {{"type":"tag","begin":"<a>","content":{{"type":"any_text"}},"end":"</a>"}}]{}}})",
                              further));
  };
  check(of(""), {"", "x", "x<a>y</a>z<a></a>"}, {"<a>", "<a", "<a>y</a"});
  check(of(R"(,"at_least_one":true)"), {"<a>y</a>", "<a></a>x<a></a>z"}, {"", "x", "x<a></a>"});
  check(of(R"(,"stop_after_first":true)"), {"", "x", "x<a>y</a>"}, {"<a></a>x", "<a></a><a></a>"});
  check(of(R"(,"at_least_one":true,"stop_after_first":true)"), {"<a>y</a>"},
        {"", "x<a></a>", "<a></a>x"});
  check(of(R"(,"excludes":["z"])"), {"x", "<a>z</a>"}, {"z", "<a></a>z"});
}

TEST_CASE("sequences, choices and values") {
  check(format(R"-({"type":"sequence","elements":[
      {"type":"const_string","value":"n: "},
      {"type":"or","elements":[{"type":"json_schema","json_schema":{"type":"integer"}},
                               {"type":"regex","pattern":"[a-c]+"},
                               {"type":"grammar","grammar":"root ::= \"x\" root?"},
                               {"type":"grammar","grammar":"start: \"yz\""}]},
      {"type":"const_string","value":"."}]})-"),
        {"n: 12.", "n: abc.", "n: xx.", "n: yz."}, {"n: .", "n: 12", "n: d.", "12."});
}

TEST_CASE("any text within a tag ends before the tag does") {
  check(
      format(R"({"type":"tag","begin":"<t>","content":{"type":"any_text"},"end":["</t>","</>"]})"),
      {"<t></t>", "<t>a < b</>", "<t></ t></t>"}, {"<t>", "<t></t></t>", "<t></>x</t>"});
  // of the tag around a sequence, too
  check(format(R"-({"type":"tag","begin":"[","content":{"type":"sequence","elements":[
        {"type":"any_text","excludes":["b"]},{"type":"const_string","value":"b"}]},"end":"]"})-"),
        {"[b]", "[aab]"}, {"[a]b]", "[abb]", "[a]"});
  check(format(R"({"type":"tag","begin":"<","content":{"type":"any_text"},"end":""})"),
        {"<", "<x>"}, {"x"});
}

TEST_CASE("tags with a separator") {
  const auto of = [](const char* further) {
    return format(fmt::format(R"({{"type":"tags_with_separator","separator":", ","tags":[
      {{"type":"tag","begin":"a","content":
        {{"type":"json_schema","json_schema":{{"type":"boolean"}}}},"end":""}},
      {{"begin":"b","content":{{"type":"const_string","value":""}},"end":"c"}}]{}}})",
                              further));
  };
  check(of(""), {"", "atrue", "bc, afalse, bc"}, {"bc,", ", bc", "bc bc", "b"});
  check(of(R"(,"at_least_one":true)"), {"bc", "bc, bc"}, {""});
  check(of(R"(,"stop_after_first":true)"), {"", "bc"}, {"bc, bc"});
}

TEST_CASE("errors of structural tags name their place") {
  const std::string begin = R"({"type":"triggered_tags",)";
  const std::tuple<std::string, errc, const char*> rows[] = {
      {"x", errc::invalid_value, "JSON"},
      {"[]", errc::invalid_value, "object"},
      {"{}", errc::invalid_value, "'format'"},
      {R"({"type":"json"})", errc::invalid_value, "structural_tag"},
      {R"({"type":"structural_tag","structures":[]})", errc::invalid_value, "'structures'"},
      {R"({"type":"structural_tag","structures":[{"begin":"<","schema":{},"end":">"}]})",
       errc::invalid_value, "'triggers'"},
      {R"({"type":"structural_tag","triggers":["!"],"structures":[{"begin":"<","schema":{},"end":">"}]})",
       errc::invalid_value, "none of the triggers"},
      {R"({"type":"structural_tag","triggers":["<","!"],"structures":[{"begin":"<","schema":{},"end":">"}]})",
       errc::invalid_value, "no tag begins"},
      {R"({"type":"structural_tag","triggers":["<"],)"
       R"("structures":[{"begin":"<","schema":{"not":{}},"end":">"}]})",
       errc::unsupported_parameter, "structures[0].schema"},
      {R"({"type":"structural_tag","triggers":[""],"structures":[{"begin":"<","schema":{},"end":">"}]})",
       errc::invalid_value, "'triggers'"},
      {R"({"type":"structural_tag","format":{"type":"any_text"},"more":1})",
       errc::unsupported_parameter, "'more'"},
      {R"({"type":"structural_tag","format":[]})", errc::invalid_value, "format"},
      {R"({"type":"structural_tag","format":{"type":"qwen_xml_parameter"}})",
       errc::unsupported_parameter, "qwen_xml_parameter"},
      {R"({"type":"structural_tag","format":{"type":"json_schema","json_schema":{},"style":"x"}})",
       errc::unsupported_parameter, "'style'"},
      {R"({"type":"structural_tag","format":{"type":"sequence","elements":[{"type":"regex"}]}})",
       errc::invalid_value, "format.elements[0]"},
      {R"({"type":"structural_tag","format":{"type":"tag","begin":"a","content":{"type":"any_text"}}})",
       errc::invalid_value, "'end'"},
      {R"({"type":"structural_tag","format":{"type":"tag","begin":"a","end":"b"}})",
       errc::invalid_value, "'content'"},
      {R"({"type":"structural_tag","format":)" + begin +
           R"("triggers":["a"],"tags":[],"at_least_one":1}})",
       errc::invalid_value, "'tags'"},
      {R"({"type":"structural_tag","format":)" + begin +
           R"("triggers":["a"],"tags":[1],"at_least_one":1}})",
       errc::invalid_value, "at_least_one"},
  };
  for (const auto& [source, code, what] : rows) {
    CAPTURE(source);
    const auto e = refusal_of(tags(source));
    CHECK(e.code == code);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
  std::string deep;
  for (int i = 0; i < 200; ++i)
    deep += R"({"type":"or","elements":[)";
  CHECK(refusal_of(tags(R"({"type":"structural_tag","format":)" + deep)).code ==
        errc::invalid_value);
}
