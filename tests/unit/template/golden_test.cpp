// Goal: the engine renders as jinja2 does. Method: jinja2's output, recorded by
// tests/data/template/make_goldens.py. It covers the model families' templates with a dozen
// conversations each, and a table of small expressions and statements.
#include "tests/unit/template/template_data.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::test;

namespace {

result<std::string> render_source(const std::string& source, const std::string& context) {
  const auto parsed = text::chat_template::parse(source);
  if (!parsed) {
    return parsed.error();
  }
  const auto prompt = parsed->render(input_of(context));
  if (!prompt) {
    return prompt.error();
  }
  return prompt->text();
}

void check_row(const std::string& source, const std::string& context,
               const nlohmann::ordered_json& row) {
  CAPTURE(source);
  CAPTURE(context);
  const auto got = render_source(source, context);
  const std::string shown = got ? *got : "error: " + got.error().message;
  CAPTURE(shown);
  if (row.contains("text")) {
    CHECK(shown == row.at("text").get<std::string>());
    return;
  }
  CHECK_FALSE(got.has_value());
  if (got) {
    return;
  }
  CHECK(got.error().code == errc::template_failed);
  CHECK(got.error().message.find("template line ") != std::string::npos);
  // The text of raise_exception is the template author's message to the client.
  CHECK(got.error().message.starts_with(row.at("error").get<std::string>()));
}

} // namespace

TEST_CASE("the templates of the model families render as jinja2 renders them") {
  const auto& rows = goldens().at("families");
  REQUIRE(rows.size() >= 190);
  for (const auto& row : rows) {
    const auto file = row.at("template").get<std::string>();
    CAPTURE(file);
    check_row(read_data(file), row.at("context").get<std::string>(), row);
  }
}

TEST_CASE("expressions and statements have their jinja2 meaning") {
  const auto& rows = goldens().at("snippets");
  REQUIRE(rows.size() >= 150);
  for (const auto& row : rows) {
    check_row(row.at("source").get<std::string>(), "data", row);
  }
}

TEST_CASE("unsupported syntax is rejected by name when the template is parsed") {
  const std::pair<const char*, const char*> rows[] = {
      {"{% include 'x' %}",
       "the tag 'include' is not supported: a model has one template (template line 1)"},
      {"\n{% import 'x' as y %}",
       "the tag 'import' is not supported: a model has one template (template line 2)"},
      {"{% from 'x' import y %}",
       "the tag 'from' is not supported: a model has one template (template line 1)"},
      {"{% extends 'x' %}",
       "the tag 'extends' is not supported: a model has one template (template line 1)"},
      {"{% do x %}", "the tag 'do' is not supported (template line 1)"},
      {"{% autoescape true %}{% endautoescape %}",
       "'autoescape' is supported only as 'false' (template line 1)"},
      {"{{ [1] | random }}", "the filter 'random' is not supported: the same request must give the "
                             "same prompt (template line 1)"},
      {"{{ 1 | urlize }}",
       "the filter 'urlize' is not supported: it makes no text for a model (template line 1)"},
      {"{{ 1 | nothing }}", "no filter named 'nothing' (template line 1)"},
      {"{{ 1 is odder }}", "no test named 'odder' (template line 1)"},
      {"{% block a %}{% endblock b %}", "expected '%}', found 'b' (template line 1)"},
      {"{% block a %}\n{% block a %}", "two blocks have the name 'a' (template line 2)"},
  };
  for (const auto& [source, message] : rows) {
    const auto parsed = text::chat_template::parse(source);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == errc::template_failed);
    CHECK(parsed.error().message == message);
  }
}

TEST_CASE("a filter name computed while rendering is rejected as well") {
  CHECK_FALSE(render_source("{{ ['a'] | map('random') | list }}", "user").has_value());
}

// docs/apis/chat-templates.md has the table.
TEST_CASE("every built-in of jinja2 is here, or refused with its reason") {
  const char* const filters[] = {
      "abs",    "attr",       "batch",       "capitalize", "center",   "count",
      "d",      "default",    "dictsort",    "e",          "escape",   "filesizeformat",
      "first",  "float",      "forceescape", "format",     "groupby",  "indent",
      "int",    "items",      "join",        "last",       "length",   "list",
      "lower",  "map",        "max",         "min",        "pprint",   "random",
      "reject", "rejectattr", "replace",     "reverse",    "round",    "safe",
      "select", "selectattr", "slice",       "sort",       "string",   "striptags",
      "sum",    "title",      "tojson",      "trim",       "truncate", "unique",
      "upper",  "urlencode",  "urlize",      "wordcount",  "wordwrap", "xmlattr"};
  for (const std::string name : filters) {
    CAPTURE(name);
    const auto parsed = text::chat_template::parse("{{ x | " + name + " }}");
    const bool is_refused = !parsed && parsed.error().message.starts_with("the filter '" + name +
                                                                          "' is not supported: ");
    CHECK((parsed || is_refused));
  }
  const char* const tests[] = {
      "boolean", "callable", "defined",  "divisibleby", "eq",       "equalto",     "escaped",
      "even",    "false",    "filter",   "float",       "ge",       "greaterthan", "gt",
      "in",      "integer",  "iterable", "le",          "lessthan", "lower",       "lt",
      "mapping", "ne",       "none",     "number",      "odd",      "sameas",      "sequence",
      "string",  "test",     "true",     "undefined",   "upper"};
  for (const std::string name : tests) {
    CAPTURE(name);
    CHECK(text::chat_template::parse("{{ x is " + name + " }}"));
  }
  for (const std::string name : {"range", "dict", "cycler", "joiner", "namespace"}) {
    CAPTURE(name);
    const auto known =
        render_source("{{ " + name + " is callable and " + name + " is defined }}", "user");
    REQUIRE(known);
    CHECK(*known == "True");
  }
}

TEST_CASE("an error names the line of the template") {
  const auto got = render_source("a\n{% if true %}\n{{ messages.x.y }}\n{% endif %}", "user");
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().message == "a list has no attribute 'x' (template line 3)");
}

TEST_CASE("without a date strftime_now is undefined, so that templates use their own") {
  const auto parsed = text::chat_template::parse(
      "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}fixed{% endif %}");
  REQUIRE(parsed.has_value());
  auto input = input_of("user");
  CHECK(parsed->render(input)->text() == "2025");
  input.now.reset();
  CHECK(parsed->render(input)->text() == "fixed");
}

TEST_CASE("chat_template_kwargs cannot replace the messages") {
  const auto parsed = text::chat_template::parse("{{ messages }}");
  for (const char* name : {"messages", "tools", "bos_token", "add_generation_prompt"}) {
    text::template_input input;
    input.extra.emplace_back(name, text::value::none());
    const auto got = parsed->render(input);
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().code == errc::invalid_value);
    CHECK(got.error().param == "chat_template_kwargs");
  }
}
