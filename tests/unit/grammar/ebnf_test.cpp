// EBNF: llama.cpp's examples, and errors.
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using baton::test::matches;
using baton::test::refusal_of;

namespace {

constraint ebnf(std::string source) {
  return {constraint_kind::grammar, std::move(source)};
}

} // namespace

TEST_CASE("rules, groups and repetitions") {
  auto of = test::automaton_of(ebnf(R"-(
# arithmetic, as in llama.cpp's grammars
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num
        | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws   # a name
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)-"));
  CHECK(matches(of, "a=1\n"));
  CHECK(matches(of, "x_1 +(2*y) = 20\n1=1\n"));
  CHECK_FALSE(matches(of, "a=1"));
  CHECK_FALSE(matches(of, "a+=1\n"));
  CHECK_FALSE(matches(of, "A=1\n"));
  CHECK_FALSE(matches(of, ""));
}

TEST_CASE("literals, classes and counts") {
  auto of = test::automaton_of(ebnf(
      R"(root::="\"\\\n\x41\u00e9\U0001F600"[^a-c\]]{2,3}.?'x'* other
other ::= "z"{2} | ("y" {3,})
)"));
  const std::string begin = "\"\\\nA\xc3\xa9\xf0\x9f\x98\x80";
  CHECK(matches(of, begin + "ddzz"));
  CHECK(matches(of, begin + "ddd\xe4\xb8\xadxxyyy"));
  CHECK(matches(of, begin + "ddyyyyy"));
  CHECK_FALSE(matches(of, begin + "dz"));
  CHECK_FALSE(matches(of, begin + "adzz"));
  CHECK_FALSE(matches(of, begin + "d]zz"));
  CHECK_FALSE(matches(of, begin + "ddzzzzz"));
}

TEST_CASE("a rule may call itself after consuming something") {
  auto of = test::automaton_of(ebnf("root ::= \"a\" root \"b\" | \"c\""));
  CHECK(matches(of, "c"));
  CHECK(matches(of, "aaacbbb"));
  CHECK_FALSE(matches(of, "aacb"));
}

TEST_CASE("a rule may begin with itself") {
  auto of = test::automaton_of(
      ebnf("root ::= root \"+\" term | root | term\nterm ::= [0-9] | term \"!\""));
  for (const char* text : {"1", "1+2+3", "1!!+2!"})
    CHECK_MESSAGE(matches(of, text), text);
  for (const char* text : {"", "+1", "1+", "!1", "1+2 "})
    CHECK_MESSAGE(!matches(of, text), text);
}

TEST_CASE("errors are reported") {
  const std::pair<const char*, const char*> rows[] = {
      {"root ::= other", "'other'"},
      {"main ::= \"a\"", "'root'"},
      {"root ::= other \"a\" | \"b\"\nother ::= root", "begins with itself"},
      {"root ::= \"x\"? root \"a\" | \"b\"", "begins with itself"},
      {"root ::= (root \"a\" | \"b\")", "begins with itself"},
      {"root ::= \"a", "an unterminated literal"},
      {"root ::= [a", "without ']'"},
      {"root ::= (\"a\"", "without ')'"},
      {"root = \"a\"", "::="},
      {"root ::= \"a\"\nroot ::= \"b\"", "twice"},
      {"root ::= \"\\q\"", "escape"},
      {"root ::= [z-a]", "range"},
      {"root ::= \"a\"{3,1}", "repetition"},
      {"root ::= \"\\ud800\"", "character"},
      {"root ::= %", "not a literal"},
      {"", "empty"},
      {"root ::= []", "no text matches"},
  };
  for (const auto& [source, what] : rows) {
    CAPTURE(source);
    const auto e = refusal_of(ebnf(source));
    CHECK(e.code == errc::invalid_value);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
  CHECK(refusal_of(ebnf("root ::= (=\"a\") \"a\"")).code == errc::unsupported_parameter);
}

TEST_CASE("a choice is one of its texts") {
  const constraint c{constraint_kind::choice, R"(["yes", "no", "\u00e9t\u00e9 \"x\""])"};
  CHECK(matches(c, "yes"));
  CHECK(matches(c, "no"));
  CHECK(matches(c, "\xc3\xa9t\xc3\xa9 \"x\""));
  CHECK_FALSE(matches(c, "ye"));
  CHECK_FALSE(matches(c, "yesno"));
  for (const char* text : {"[]", "[1]", "[\"\"]", "{}", "yes", "[\"a\"", "[\"a\",]"})
    CHECK(refusal_of({constraint_kind::choice, text}).code == errc::invalid_value);
}

TEST_CASE("any JSON object") {
  const constraint c{constraint_kind::json_object, ""};
  auto of = test::automaton_of(c);
  for (const char* text : {"{}", "{ }", R"({"a": 1})",
                           R"({"a":[1, -2.5e10, {"b":null}], "c": "\u00e9\ud83d\ude00 x"})",
                           "{\n  \"a\": true,\n  \"b\": []\n}"})
    CHECK_MESSAGE(matches(of, text), text);
  for (const char* text : {"", "[]", "{", "{\"a\"}", "{\"a\": 01}", "{a: 1}", "{\"a\": \"\n\"}",
                           "{\"a\": \"\\ud83d\"}", "{\"a\": 1,}", "{} ", "{\"\xff\": 1}"})
    CHECK_MESSAGE(!matches(of, text), text);
}
