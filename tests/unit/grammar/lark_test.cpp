// Grammars in Lark's notation: grammars of its documentation, and errors.
#include "runtime/grammar/lark.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using baton::test::matches;
using baton::test::refusal_of;

namespace {

constraint lark(std::string source) {
  return {constraint_kind::grammar, std::move(source)};
}

} // namespace

TEST_CASE("the first statement decides between Lark and EBNF") {
  for (const char* text : {"start: \"a\"", "// c\n\n# d\n?start : \"a\"", "!?a: b",
                           "%import common.INT\nstart: INT", "A.2: \"x\"", "_sep{x}: x"})
    CHECK_MESSAGE(grammar::is_lark(text), text);
  for (const char* text : {"root ::= \"a\"", "# c\nroot::=\"x: y\"", "root\n::= \"a\"", "", "\"a\"",
                           "root = \"a\"", "(a)"})
    CHECK_MESSAGE(!grammar::is_lark(text), text);
}

// Lark's calculator, whose rules begin with themselves; and its white space.
TEST_CASE("arithmetic with left recursion, aliases, imports and ignored text") {
  auto of = test::automaton_of(lark(R"-(
    ?start: sum
          | NAME "=" sum    -> assign_var

    ?sum: product
        | sum "+" product   -> add
        | sum "-" product   -> sub

    ?product: atom
        | product "*" atom  -> mul
        | product "/" atom  -> div

    ?atom: NUMBER           -> number
         | "-" atom         -> neg
         | NAME             -> var
         | "(" sum ")"

    %import common.CNAME -> NAME
    %import common.NUMBER
    %import common.WS_INLINE
    %ignore WS_INLINE
)-"));
  for (const char* text :
       {"1", "1+2", "x = 1 + 2 * 3", " a=(1 - -2)/x_1 ", "1-2-3", "1.5e3*.5", "2*(3+4)*5"})
    CHECK_MESSAGE(matches(of, text), text);
  for (const char* text : {"", "1+", "+1", "x=", "1 2", "(1", "1\n", "a=b=1"})
    CHECK_MESSAGE(!matches(of, text), text);
}

// Lark's JSON.
TEST_CASE("JSON with optional lists") {
  auto of = test::automaton_of(lark(R"-(
?start: value
?value: object | array | string
      | SIGNED_NUMBER      -> number
      | "true"             -> true
      | "false"            -> false
      | "null"             -> null
array  : "[" [value ("," value)*] "]"
object : "{" [pair ("," pair)*] "}"
pair   : string ":" value
string : ESCAPED_STRING
%import common (ESCAPED_STRING, SIGNED_NUMBER, WS)
%ignore WS
)-"));
  for (const char* text :
       {"{}", "[ ]", R"({"a": [1, -2.5e1, "x\"y"], "b" : {"c":null}})", "\n true "})
    CHECK_MESSAGE(matches(of, text), text);
  for (const char* text : {"", "[1,]", "{\"a\"}", "{a:1}", "[1 2]", "\"a\nb\"", "tru e"})
    CHECK_MESSAGE(!matches(of, text), text);
}

TEST_CASE("without ignored text there is none") {
  auto of = test::automaton_of(lark("start: \"a\" B\nB: \"b\" \"c\""));
  CHECK(matches(of, "abc"));
  CHECK_FALSE(matches(of, "a bc"));
}

TEST_CASE("ignored text stands between terminals and not within them") {
  auto of = test::automaton_of(
      lark("start: word+\nword: \"a\" B\nB: \"b\" /[0-9]/\n%ignore \" \"\n%ignore /#[^\\n]*\\n/"));
  CHECK(matches(of, " a b1 #x\nab2 "));
  CHECK_FALSE(matches(of, "a b 1"));
}

TEST_CASE("literals, ranges, expressions and counts") {
  auto of = test::automaton_of(lark(R"-(
start: "Select"i " " LETTERS~2..3 "\n\x41\u00e9\"" /a\/b|c+/ ("x" | "y")~2
LETTERS.3: "a".."c"    // a priority, a range
)-"));
  const std::string middle = "\nA\xc3\xa9\"";
  CHECK(matches(of, "sELECT ab" + middle + "a/bxy"));
  CHECK(matches(of, "SELECT abc" + middle + "cccyy"));
  CHECK_FALSE(matches(of, "SELECT a" + middle + "cyy"));
  CHECK_FALSE(matches(of, "SELECT abca" + middle + "cyy"));
  CHECK_FALSE(matches(of, "SELECT abd" + middle + "cyy"));
  CHECK_FALSE(matches(of, "SELECT ab" + middle + "cy"));
}

TEST_CASE("statements end with their line, unless the next begins with '|' or a group is open") {
  auto of = test::automaton_of(
      lark("start: a\n  | b\n\n\n// c\n  | (\"c\"\n     \"d\"\n  )\na: \"a\"\nb: \"b\"?"));
  for (const char* text : {"a", "b", "", "cd"})
    CHECK_MESSAGE(matches(of, text), text);
  CHECK_FALSE(matches(of, "ab"));
}

TEST_CASE("the common terminals match what Lark's do") {
  const std::tuple<const char*, std::vector<const char*>, std::vector<const char*>> rows[] = {
      {"DIGIT", {"7"}, {"", "77", "a"}},
      {"HEXDIGIT", {"a", "F"}, {"g"}},
      {"INT", {"0", "0012"}, {"-1", ""}},
      {"SIGNED_INT", {"-1", "+12", "3"}, {"--1", "1."}},
      {"DECIMAL", {"1.", ".5", "1.5"}, {".", "1"}},
      {"FLOAT", {"1e5", "1.", "1.5E-3"}, {"1", "e5"}},
      {"SIGNED_FLOAT", {"-1e5", "+.5"}, {"-1"}},
      {"NUMBER", {"1", "1.", ".5", "1e3"}, {"-1", "."}},
      {"SIGNED_NUMBER", {"-1", "+1.5e3"}, {"-"}},
      {"ESCAPED_STRING", {"\"\"", "\"a\\\"b\\\\\""}, {"\"a", "\"\\\"", "\"a\nb\""}},
      {"LCASE_LETTER", {"a"}, {"A"}},
      {"UCASE_LETTER", {"A"}, {"a"}},
      {"LETTER", {"a", "Z"}, {"1"}},
      {"WORD", {"abC"}, {"a1", ""}},
      {"CNAME", {"_a1", "B"}, {"1a", ""}},
      {"WS_INLINE", {" \t"}, {"\n", ""}},
      {"WS", {" \n\r\f\t"}, {""}},
      {"CR", {"\r"}, {"\n"}},
      {"LF", {"\n"}, {"\r"}},
      {"NEWLINE", {"\n", "\r\n\n"}, {"\r"}},
      {"SH_COMMENT", {"#", "# a"}, {"# a\n"}},
      {"CPP_COMMENT", {"//", "// a"}, {"/ a"}},
      {"C_COMMENT", {"/**/", "/* a * b\n**/"}, {"/*/", "/* */ */"}},
      {"SQL_COMMENT", {"--", "-- a"}, {"- a"}},
  };
  for (const auto& [name, good, bad] : rows) {
    auto of = test::automaton_of(lark(fmt::format("start: {0}\n%import common.{0}", name)));
    for (const char* text : good)
      CHECK_MESSAGE(matches(of, text), name << ": " << text);
    for (const char* text : bad)
      CHECK_MESSAGE(!matches(of, text), name << ": " << text);
  }
}

TEST_CASE("errors of Lark grammars are reported") {
  const std::pair<const char*, const char*> rows[] = {
      {"start: other", "no rule 'other'"},
      {"start: OTHER", "no terminal 'OTHER'"},
      {"a: \"b\"", "'start'"},
      {"start: \"a", "an unterminated literal"},
      {"start: \"\"", "an empty literal"},
      {"start: /a", "an unterminated expression"},
      {"start: /(/", "("},
      {"start: (\"a\"", "without ')'"},
      {"start: [\"a\"", "without ']'"},
      {"start: \"a\")", "behind the end of a statement"},
      {"start: \"a\"\nstart: \"b\"", "twice"},
      {"start: \"\\q\"", "escape"},
      {"start: \"b\"..\"a\"", "range"},
      {"start: \"ab\"..\"c\"", "range"},
      {"start: \"a\"..b", "behind it"},
      {"start: \"a\"~3..1", "repetition"},
      {"start: \"a\"~", "without a number"},
      {"start: \"a\"~999999", "repetition"},
      {"start: \"a\" ->", "without a name"},
      {"start.x: \"a\"", "priority"},
      {"start: a\na: b \"x\" | \"y\"\nb: a", "begins with itself"}, // through another rule
      {"start: A\nA: A \"x\" | \"y\"", "begins with itself"},       // no terminal may
      {"start: start", "no text matches"},
      {"start: \"a\"\n%import common.NOTHING", "NOTHING"},
      {"start: \"a\"\n%import common", "common.NAME"},
      {"start: \"a\"\n%import common (INT", "without ')'"},
      {"start: \"a\"\nx = 1", "'name:'"},
  };
  for (const auto& [source, what] : rows) {
    CAPTURE(source);
    const auto e = refusal_of(lark(source));
    CHECK(e.code == errc::invalid_value);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
  const std::pair<const char*, const char*> unsupported[] = {
      {"start: /a/i", "flag 'i'"},
      {"start: s{\"a\"}\ns{x}: x", "template"},
      {"start: \"a\"\ns{x}: x", "template"},
      {"start: \"a\"\n%declare A", "%declare"},
      {"start: \"a\"\n%override start: \"b\"", "%override"},
      {"start: \"a\"\n%import python.NAME", "%import"},
      {"start: /(?=a)a/", "look"},
  };
  for (const auto& [source, what] : unsupported) {
    CAPTURE(source);
    const auto e = refusal_of(lark(source));
    CHECK(e.code == errc::unsupported_parameter);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
}
