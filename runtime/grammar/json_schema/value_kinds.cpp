#include "runtime/grammar/json_schema/value_kinds.hpp"

#include "runtime/grammar/json_schema/schema_reference.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace baton::grammar {
namespace {

constexpr std::size_t schemas_max = 256; // visited for one value: a bound of cyclic references

value_kinds kinds_of_type(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, json_value::kind>, 7> types{{
      {"null", json_value::kind::null},
      {"boolean", json_value::kind::boolean},
      {"number", json_value::kind::number},
      {"integer", json_value::kind::number},
      {"string", json_value::kind::string},
      {"array", json_value::kind::array},
      {"object", json_value::kind::object},
  }};
  const auto* row =
      std::find_if(types.begin(), types.end(), [&](const auto& t) { return t.first == type; });
  return row == types.end() ? all_kinds : bit_of(row->second);
}

class kind_finder {
public:
  explicit kind_finder(const json_value& root) : root_(root) {}

  value_kinds find(const json_value& schema) {
    if (!schema.is_object() || ++visited_ > schemas_max)
      return all_kinds;
    value_kinds kinds = all_kinds;
    const auto narrow = [&kinds](value_kinds to) { kinds = static_cast<value_kinds>(kinds & to); };
    if (const auto* type = schema.find("type"))
      narrow(type->is_array()
                 ? any(type->items, [](const json_value& t) { return kinds_of_type(t.text); })
                 : kinds_of_type(type->text));
    if (const auto* values = schema.find("enum"); values && values->is_array())
      narrow(any(values->items, [](const json_value& v) { return bit_of(v.is); }));
    if (const auto* value = schema.find("const"))
      narrow(bit_of(value->is));
    if (const auto* reference = schema.find("$ref"))
      if (const auto target = find_reference(root_, reference->text))
        narrow(find(**target));
    const auto deeper = [this](const json_value& s) { return find(s); };
    for (const auto* keyword : {"anyOf", "oneOf"})
      if (const auto* ways = schema.find(keyword); ways && ways->is_array())
        narrow(any(ways->items, deeper));
    if (const auto* all = schema.find("allOf"); all && all->is_array())
      for (const auto& one : all->items)
        narrow(find(one));
    return kinds;
  }

private:
  template <class Kinds>
  static value_kinds any(const std::vector<json_value>& of, Kinds kinds) {
    value_kinds out = 0;
    for (const auto& one : of)
      out = static_cast<value_kinds>(out | kinds(one));
    return out;
  }

  const json_value& root_;
  std::size_t visited_ = 0;
};

const json_value* find_member(const json_value& schema, const json_value& root,
                              std::string_view name, std::size_t depth) {
  if (depth > 16 || !schema.is_object())
    return nullptr;
  if (const auto* properties = schema.find("properties"))
    if (const auto* of = properties->find(name))
      return of;
  if (const auto* reference = schema.find("$ref"))
    if (const auto target = find_reference(root, reference->text))
      if (const auto* of = find_member(**target, root, name, depth + 1))
        return of;
  for (const auto* keyword : {"allOf", "anyOf", "oneOf"})
    if (const auto* all = schema.find(keyword))
      for (const auto& one : all->items)
        if (const auto* of = find_member(one, root, name, depth + 1))
          return of;
  const auto* others = schema.find("additionalProperties");
  return others && others->is_object() ? others : nullptr;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = std::min(text.find_first_not_of(space), text.size());
  return text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

} // namespace

value_kinds kinds_of(const json_value& schema, const json_value& root) {
  return kind_finder(root).find(schema);
}

const json_value* member_schema(const json_value& schema, std::string_view name) {
  return find_member(schema, schema, name, 0);
}

std::string json_of_written(std::string_view written, value_kinds kinds) {
  if (kinds == bit_of(json_value::kind::string))
    return quoted(written);
  auto text = trimmed(written);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> names{
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto& [python, json] : names)
    text = text == python ? json : text;
  const auto parsed = parse_json(text);
  const bool is_taken = parsed && !parsed->is_string() && (kinds & bit_of(parsed->is)) != 0;
  return is_taken ? to_text(*parsed) : quoted(written);
}

} // namespace baton::grammar
