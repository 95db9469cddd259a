// Random schemas, and random texts of their grammars: each must be JSON valid under its schema.
#include "tests/unit/grammar/grammar_walk.hpp"
#include "tests/unit/grammar/schema_check.hpp"

#include <nlohmann/json.hpp>

using namespace baton;
using nlohmann::ordered_json;

namespace {

class schema_maker {
public:
  explicit schema_maker(std::uint32_t seed) : random_(seed) {}

  ordered_json make_root() {
    ordered_json definitions;
    for (const char* name : {"a", "b"})
      definitions[name] = make(2);
    auto root = make(0);
    if (!root.is_object())
      root = ordered_json::object({{"anyOf", ordered_json::array({root})}});
    root["$defs"] = definitions;
    return root;
  }

  std::mt19937& random() { return random_; }

private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  ordered_json make(int depth) {
    switch (below(depth > 2 ? 6 : 11)) {
    case 0:
      return make_string();
    case 1:
    case 2:
      return make_number();
    case 3:
      return {{"type", one_in(2) ? "boolean" : "null"}};
    case 4:
      return {{"enum", ordered_json::array({"x y", 1, -2.5, nullptr, "q\"\\\n\u00e9"})}};
    case 5:
      return one_in(3) ? ordered_json(true) : ordered_json{{"const", {{"k", {1, "v"}}}}};
    case 6:
    case 7:
      return make_object(depth);
    case 8:
      return make_array(depth);
    case 9:
      return {{"anyOf", ordered_json::array({make(depth + 1), make(depth + 1)})}};
    default:
      return one_in(2)
                 ? ordered_json{{"$ref", one_in(2) ? "#/$defs/a" : "#/$defs/b"}}
                 : ordered_json{
                       {"allOf", ordered_json::array({make_object(depth), make_object(depth)})}};
    }
  }

  ordered_json make_string() {
    ordered_json out{{"type", "string"}};
    if (one_in(3)) {
      const auto least = below(6);
      out["minLength"] = least;
      out["maxLength"] = least + below(6);
    } else if (one_in(3)) {
      const char* patterns[] = {"^[a-f]{2,4}$", "^(x|yz)+$", "[0-9]+-[0-9]", "^\\w+ \\w+$"};
      out["pattern"] = patterns[below(4)];
    }
    return out;
  }

  ordered_json make_number() {
    ordered_json out{{"type", one_in(2) ? "integer" : "number"}};
    const int least = static_cast<int>(below(2000)) - 1000;
    if (one_in(2))
      out[one_in(2) ? "minimum" : "exclusiveMinimum"] = least;
    if (one_in(2))
      out[one_in(2) ? "maximum" : "exclusiveMaximum"] = least + 2 + static_cast<int>(below(500));
    return out;
  }

  ordered_json make_object(int depth) {
    ordered_json properties = ordered_json::object(), required = ordered_json::array();
    const char* names[] = {"b", "a", "long name", "\u00e9\"", "ab"};
    const auto own = depth * 10 + static_cast<int>(below(3)); // so that two can be merged
    for (std::uint32_t i = 0, n = below(4); i < n; ++i) {
      const auto name = fmt::format("{}{}", names[i], own);
      properties[name] = make(depth + 1);
      if (one_in(2))
        required.push_back(name);
    }
    ordered_json out{{"type", "object"}, {"properties", properties}, {"required", required}};
    if (one_in(3))
      out["additionalProperties"] = make(depth + 1);
    return out;
  }

  ordered_json make_array(int depth) {
    ordered_json out{{"type", "array"}};
    const auto least = below(3);
    if (one_in(3))
      out["prefixItems"] = ordered_json::array({make(depth + 1), make(depth + 1)});
    out["items"] = make(depth + 1);
    if (one_in(2))
      out["minItems"] = least;
    if (one_in(2))
      out["maxItems"] = least + 2 + below(3);
    return out;
  }

  std::mt19937 random_;
};

} // namespace

TEST_CASE("every text of a random schema's grammar is valid under the schema") {
  int compiled = 0, texts = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    schema_maker maker(seed);
    const auto source = maker.make_root().dump();
    auto rules = grammar::compile({constraint_kind::json_schema, source});
    // Random schemas may contradict themselves, or merge parts that cannot be merged.
    if (!rules)
      continue;
    ++compiled;
    CAPTURE(source);
    grammar::automaton of(*rules);
    for (int i = 0; i < 10; ++i) {
      const auto text = test::random_text(of, maker.random());
      if (!text)
        continue;
      ++texts;
      CHECK_MESSAGE(test::is_valid(source, *text), *text);
    }
  }
  CHECK(compiled > 200);
  CHECK(texts > 1500);
}
