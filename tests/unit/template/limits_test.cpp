// Goal: a hostile template or message ends in an error, quickly and without much memory or stack.
#include "runtime/text/template/chat_template.hpp"

#include <doctest/doctest.h>

#include <span>
#include <thread>

using namespace baton;
using namespace baton::text;

namespace {

std::string repeated(std::string_view piece, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) {
    all += piece;
  }
  return all;
}

// The error's message, or the text if there is none.
std::string outcome(const std::string& source, const template_input& input = {},
                    const template_limits& limits = {}) {
  const auto parsed = chat_template::parse(source, limits);
  if (!parsed) {
    CHECK(parsed.error().code == errc::template_failed);
    return parsed.error().message;
  }
  const auto prompt = parsed->render(input, limits);
  if (!prompt) {
    CHECK(prompt.error().code == errc::template_failed);
    return prompt.error().message;
  }
  return prompt->text();
}

struct row {
  std::string source;
  std::string error; // part of the message
};

void check_rows(std::span<const row> rows) {
  for (const row& r : rows) {
    const std::string source = r.source.substr(0, 150);
    CAPTURE(source);
    const std::string got = outcome(r.source).substr(0, 300);
    CAPTURE(got);
    CHECK(got.find(r.error) != std::string::npos);
  }
}

} // namespace

TEST_CASE("a template that would grow or run without end is stopped") {
  const row rows[] = {
      {"{% for i in range(1000000000) %}x{% endfor %}", "range of 1000000000 items"},
      {"{% for i in range(-9223372036854775807, 9223372036854775807) %}{% endfor %}", "range of"},
      {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"},
      {"{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
       "%}",
       "16777216 bytes"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
       "%}",
       "steps"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(999) %}{% set n.x = [n.x, n.x] %}{% endfor "
       "%}{{ n.x }}",
       "nest deeper than 128"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor "
       "%}{{ n.x }}",
       "steps"},
      {"{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor "
       "%}{{ n.x|tojson }}",
       "steps"},
      {"{% set n = namespace(x=[1]) %}{% set m = namespace(x=[1]) %}{% for i in range(100) %}{% "
       "set "
       "n.x = [n.x, n.x] %}{% set m.x = [m.x, m.x] %}{% endfor %}{{ n.x == m.x }}",
       "steps"},
      {"{{ 'x' * 1000000000000 }}", "16777216 bytes"},
      {"{{ [1] * 1000000000000 }}", "more than 100000 items"},
      {"{{ 'x'.ljust(99999999999) }}", "16777216 bytes"},
      {"{{ 'x'|center(99999999999) }}", "16777216 bytes"},
      {"{{ 'x'|indent(99999999999, true) }}", "16777216 bytes"},
      {"{{ '%99999999999d' % 1 }}", "width"},
      {"{{ '%.99999999999f' % 1 }}", "width"},
      {"{{ [1]|tojson(indent=99999999999) }}", "16777216 bytes"},
      {"{{ ('a' * 99999)|replace('', 'b' * 99999) }}", "bytes"},
      {"{{ ('a' * 16000000)|list|length }}", "steps"},
      {"{{ (' a' * 8000000).split()|length }}", "steps"},
      {"{{ ('a' * 8000000).rfind('b' ~ 'a' * 4000000) }}", "steps"},
      {"{{ 99999999999 ** 99999999999 }}", "64 bits"},
      {"{{ 9223372036854775807 + 1 }}", "64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
      {"{{ 99999999999999999999 }}", "not a 64-bit integer"},
      {"{{ 1e999 }}", "range of a float"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deep"},
      {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
       "too deep"},
      {"{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}{{ m() "
       "}}",
       "too deep"},
      {"{% macro m(a, b=m(1)) %}{% endmacro %}{{ m(1) }}", "too deep"},
      {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "too deep"},
      {"{% for x in [] recursive %}{% else %}{% set n = namespace() %}{% endfor %}"
       "{% for x in [1] recursive %}{% set n = namespace(l=loop) %}{% for y in [1] recursive %}"
       "{{ n.l([y]) }}{% endfor %}{% endfor %}",
       "too deep"},
      {"{% block a %}{{ self.a() }}{% endblock %}", "too deep"},
      {"{% block a %}{{ self.b() }}{% endblock %}{% block b %}{{ self.a() }}{% endblock %}",
       "too deep"},
      {"{{ ('ab ' * 3000000)|wordwrap(4) }}", "steps"},
      {"{{ ('a' * 900000)|wordwrap(1)|wordwrap(1) }}", "steps"},
      {"{{ cycler(*('a' * 9999999)) }}", "steps"},
  };
  check_rows(rows);
}

TEST_CASE("a template that nests too deep is rejected when it is parsed") {
  const row rows[] = {
      {"{{ " + repeated("[", 50000) + repeated("]", 50000) + " }}", "nests too deep"},
      {"{{ " + repeated("(", 50000) + repeated(")", 50000) + " }}", "nests too deep"},
      {"{{ " + repeated("-", 50000) + "1 }}", "nests too deep"},
      {"{{ " + repeated("not ", 50000) + "1 }}", "nests too deep"},
      {"{{ " + repeated("{1:", 50000) + repeated("}", 50000) + " }}", "nests too deep"},
      {"{{ 1" + repeated("+1", 50000) + " }}", "nests too deep"},
      {"{{ 1" + repeated(" and 1", 30000) + " }}", "nests too deep"},
      {"{{ a" + repeated(".a", 50000) + " }}", "nests too deep"},
      {"{{ a" + repeated("[0]", 50000) + " }}", "nests too deep"},
      {"{{ a" + repeated("()", 50000) + " }}", "nests too deep"},
      {"{{ a" + repeated("|e", 50000) + " }}", "nests too deep"},
      {"{{ " + repeated("1 if 1 else ", 20000) + "1 }}", "nests too deep"},
      {"{{ 1" + repeated(" if 1", 20000) + " }}", "nests too deep"},
      {repeated("{% if 1 %}", 20000), "nests too deep"},
      {repeated("{% for a in b %}", 10000), "nests too deep"},
      {repeated("{% macro a() %}", 10000), "nests too deep"},
      {"{% for " + repeated("(", 50000) + repeated(")", 50000) + " %}", "nests too deep"},
      {std::string(300000, 'x'), "the limit is 262144"},
  };
  check_rows(rows);
}

TEST_CASE("many captured loops, macros and namespaces end at the step limit") {
  CHECK(outcome("{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% for j in range(99) %}"
                "{% macro m() %}{% endmacro %}{% set n.l = [m, namespace(a=n), loop] %}"
                "{% endfor %}{% endfor %}")
            .find("steps") != std::string::npos);
}

TEST_CASE("a namespace that refers to itself is neither printed without end nor leaked") {
  CHECK(outcome("{% set n = namespace() %}{% set n.n = n %}{{ n }}{{ n == n }}{{ n.n.n is defined "
                "}}") == "<Namespace>TrueTrue");
}

TEST_CASE("the caller can set each limit") {
  template_limits few;
  few.steps_max = 100;
  CHECK(outcome("{% for i in range(99) %}x{% endfor %}", {}, few).find("100 steps") !=
        std::string::npos);
  template_limits small;
  small.text_bytes_max = 10;
  CHECK(outcome("12345678901", {}, small).find("10 bytes") != std::string::npos);
  CHECK(outcome("1234567890", {}, small) == "1234567890");
  template_limits flat;
  flat.nesting_max = 10;
  CHECK(outcome("{{ ((((1)))) }}", {}, flat).find("nests too deep") != std::string::npos);
}

TEST_CASE("a long user message costs few steps and a hostile one is an error") {
  template_input input;
  input.messages = value::list({value::string(std::string(4'000'000, '<'))});
  const auto copies = outcome("{{ '<|a|>' + messages[0]|trim + '<|b|>' }}", input);
  CHECK(copies.size() == 4'000'010);
  CHECK(outcome("{{ messages[0].split('<')|length }}", input).find("steps") != std::string::npos);
  CHECK(outcome("{{ messages[0]|e }}", input).find("steps") != std::string::npos);
}

TEST_CASE("input that nests too deep is rejected, and freed without recursion over its depth") {
  value deep = value::string("x");
  for (int i = 0; i < 100000; ++i) {
    deep = value::list({std::move(deep)});
  }
  template_input input;
  input.messages = deep;
  CHECK(outcome("{{ messages }}", input).find("nests deeper than 128") != std::string::npos);
  template_input extra;
  extra.extra.emplace_back("x", deep);
  CHECK(outcome("y", extra).find("nests deeper than 128") != std::string::npos);
}

TEST_CASE("one template renders in several threads at once") {
  const auto parsed = chat_template::parse(
      "{% macro m(x) %}[{{ x }}]{% endmacro %}{% for x in messages %}{{ m(x)|upper }}{% endfor %}");
  REQUIRE(parsed.has_value());
  template_input input;
  input.messages = value::list({value::string("a"), value::string("b")});
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto prompt = parsed->render(input);
        text = prompt ? prompt->text() : prompt.error().message;
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  for (const std::string& text : texts) {
    CHECK(text == "[A][B]");
  }
}
