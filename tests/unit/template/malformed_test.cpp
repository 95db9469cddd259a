// Goal: for any bytes, parse and render give a value or an error. Method: every template cut at
// every byte, and mutated by a seeded generator; the sanitizer builds expose memory errors.
#include "tests/unit/template/template_data.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace baton;
using namespace baton::test;

namespace {

// Reads both ends of the result, so that an invalid one is detected.
bool is_value_or_error(const std::string& source, const text::template_input& input) {
  text::template_limits limits;
  limits.steps_max = 100'000;
  const auto parsed = text::chat_template::parse(source, limits);
  if (!parsed) {
    return parsed.error().code == errc::template_failed &&
           parsed.error().message.find("(template line ") != std::string::npos;
  }
  const auto prompt = parsed->render(input, limits);
  return prompt ? prompt->text().size() <= limits.text_bytes_max
                : prompt.error().code == errc::template_failed && !prompt.error().message.empty();
}

} // namespace

TEST_CASE("a template cut at any byte gives a value or an error") {
  const auto input = input_of("tool_call");
  for (const std::string& file : template_files()) {
    const std::string source = read_data(file);
    for (std::size_t length = 0; length <= source.size(); ++length) {
      if (!is_value_or_error(source.substr(0, length), input)) {
        FAIL_CHECK(file << " cut at " << length);
      }
    }
  }
}

TEST_CASE("snippets cut at any byte give a value or an error") {
  const auto input = input_of("data");
  for (const auto& row : goldens().at("snippets")) {
    const std::string source = row.at("source").get<std::string>();
    for (std::size_t length = 0; length <= source.size(); ++length) {
      if (!is_value_or_error(source.substr(0, length), input)) {
        FAIL_CHECK(source << " cut at " << length);
      }
    }
  }
}

TEST_CASE("a template with random bytes changed gives a value or an error") {
  const auto input = input_of("tool_call");
  const auto data = input_of("data");
  std::mt19937 random(20250307);
  const std::string alphabet = "{}%#-+|()[]'\"\\.,:~*/=<> \n09azifornotin\x80\xff\xe2";
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const auto mutate = [&](std::string source) {
    for (std::size_t i = 0; i <= pick(4); ++i) {
      const std::size_t at = pick(source.size());
      const char c = alphabet[pick(alphabet.size())];
      switch (pick(3)) {
      case 0:
        source[at] = c;
        break;
      case 1:
        source.insert(at, 1, c);
        break;
      default:
        source.erase(at, 1 + pick(8));
        source += ' ';
      }
    }
    return source;
  };
  const auto files = template_files();
  const auto& snippets = goldens().at("snippets");
  for (int round = 0; round < 3000; ++round) {
    const std::string changed = mutate(read_data(files[pick(files.size())]));
    CHECK(is_value_or_error(changed, input));
    const std::string snippet =
        mutate(snippets[pick(snippets.size())].at("source").get<std::string>() + " ");
    CAPTURE(snippet);
    CHECK(is_value_or_error(snippet, data));
  }
}
