#include "tests/unit/grammar/schema_check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <regex>

namespace baton::test {
namespace {

using nlohmann::json;

std::size_t characters_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

class checker {
public:
  explicit checker(const json& root) : root_(root) {}

  bool holds(const json& schema, const json& v) const {
    if (schema.is_boolean())
      return schema.get<bool>();
    const auto has = [&](const char* word) { return schema.contains(word); };
    const auto every = [&](const char* word) {
      return std::all_of(schema[word].begin(), schema[word].end(),
                         [&](const json& s) { return holds(s, v); });
    };
    const auto any = [&](const char* word) {
      return std::any_of(schema[word].begin(), schema[word].end(),
                         [&](const json& s) { return holds(s, v); });
    };
    if (has("$ref") &&
        !holds(root_.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))), v))
      return false;
    if ((has("allOf") && !every("allOf")) || (has("anyOf") && !any("anyOf")) ||
        (has("oneOf") && !any("oneOf")))
      return false;
    if (has("const") && v != schema["const"])
      return false;
    if (has("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), v) == schema["enum"].end())
      return false;
    if (has("type") && !is_of_type(schema["type"], v))
      return false;
    return number_holds(schema, v) && string_holds(schema, v) && array_holds(schema, v) &&
           object_holds(schema, v);
  }

private:
  static bool is_of_type(const json& type, const json& v) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(), [&](const json& t) { return is_of_type(t, v); });
    if (type == "integer")
      return v.is_number_integer() || (v.is_number() && std::floor(v.get<double>()) == v);
    return type == "number"    ? v.is_number()
           : type == "string"  ? v.is_string()
           : type == "boolean" ? v.is_boolean()
           : type == "null"    ? v.is_null()
           : type == "array"   ? v.is_array()
                               : v.is_object();
  }
  static bool number_holds(const json& schema, const json& v) {
    if (!v.is_number())
      return true;
    const double n = v.get<double>();
    return n >= schema.value("minimum", -INFINITY) && n <= schema.value("maximum", INFINITY) &&
           n > schema.value("exclusiveMinimum", -INFINITY) &&
           n < schema.value("exclusiveMaximum", INFINITY) &&
           (!schema.contains("multipleOf") || std::floor(n) == n);
  }
  static bool string_holds(const json& schema, const json& v) {
    if (!v.is_string())
      return true;
    const auto text = v.get<std::string>();
    if (schema.contains("pattern") &&
        !std::regex_search(text, std::regex(schema["pattern"].get<std::string>())))
      return false;
    const auto n = characters_of(text);
    return n >= schema.value("minLength", std::size_t{0}) &&
           n <= schema.value("maxLength", std::size_t{1} << 40);
  }
  bool array_holds(const json& schema, const json& v) const {
    if (!v.is_array())
      return true;
    if (v.size() < schema.value("minItems", std::size_t{0}) ||
        v.size() > schema.value("maxItems", std::size_t{1} << 40))
      return false;
    const bool is_old = schema.contains("items") && schema["items"].is_array();
    const json first = is_old ? schema["items"] : schema.value("prefixItems", json::array());
    const json rest =
        is_old ? schema.value("additionalItems", json(true)) : schema.value("items", json(true));
    for (std::size_t i = 0; i < v.size(); ++i)
      if (!holds(i < first.size() ? first[i] : rest, v[i]))
        return false;
    return true;
  }
  bool object_holds(const json& schema, const json& v) const {
    if (!v.is_object())
      return true;
    if (v.size() < schema.value("minProperties", std::size_t{0}) ||
        v.size() > schema.value("maxProperties", std::size_t{1} << 40))
      return false;
    for (const auto& name : schema.value("required", json::array()))
      if (!v.contains(name.get<std::string>()))
        return false;
    const json own = schema.value("properties", json::object());
    const json further = schema.value("additionalProperties", json(true));
    for (const auto& [name, member] : v.items()) {
      if (!holds(own.contains(name) ? own[name] : further, member))
        return false;
      if (schema.contains("propertyNames") && !holds(schema["propertyNames"], json(name)))
        return false;
    }
    return true;
  }

  const json& root_;
};

} // namespace

bool is_valid(std::string_view schema, std::string_view text) {
  const auto root = json::parse(schema);
  const auto value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return !value.is_discarded() && checker(root).holds(root, value);
}

} // namespace baton::test
