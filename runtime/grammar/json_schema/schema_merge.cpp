#include "runtime/grammar/json_schema/schema_merge.hpp"

#include "runtime/grammar/automata/graph.hpp"
#include "runtime/grammar/json_schema/decimal_range.hpp"

#include <algorithm>
#include <array>

namespace baton::grammar {
namespace {

json_value boolean(bool b) {
  json_value out;
  out.is = json_value::kind::boolean;
  out.boolean = b;
  return out;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

json_value* find(json_value& in, std::string_view name) {
  return const_cast<json_value*>(std::as_const(in).find(name));
}

class schema_merger {
public:
  explicit schema_merger(const schema_resolver& resolve) : resolve_(resolve) {}

  result<json_value> merge(const json_value& a, const json_value& b, std::size_t depth) {
    // A chain of references may be as long as there are schemas, or be circular.
    if (depth > grammar_limits::depth_max || ++merged_ > merged_max)
      return fail(errc::invalid_value, "the schema joins too many others");
    if (a == b || (b.is_boolean() && b.boolean))
      return a;
    if (a.is_boolean())
      return a.boolean ? b : a;
    if (b.is_boolean())
      return b;
    if (!a.is_object() || !b.is_object())
      return fail(errc::invalid_value, "a schema is an object, true or false");
    for (const auto* one : {&a, &b})
      if (const auto* reference = one->find("$ref"))
        return merge_referred(*one, *reference, one == &a ? b : a, depth);
    json_value out = a;
    if (auto ok = merge_properties(out, b, depth); !ok)
      return ok.error();
    for (const auto& [keyword, value] : b.members) {
      if (is_annotation(keyword) || keyword == "properties")
        continue;
      json_value* own = find(out, keyword);
      if (!own) {
        out.members.emplace_back(keyword, value);
        continue;
      }
      if (*own == value)
        continue;
      auto both = merge_keyword(keyword, *own, value, depth);
      if (!both)
        return both;
      *own = *std::move(both);
    }
    return out;
  }

private:
  static constexpr std::size_t merged_max = 10'000;

  result<json_value> merge_referred(const json_value& with, const json_value& reference,
                                    const json_value& other, std::size_t depth) {
    if (!reference.is_string())
      return fail(errc::invalid_value, "a '$ref' is a string");
    auto named = resolve_(reference.text);
    if (!named)
      return named.error();
    json_value rest = with;
    std::erase_if(rest.members, [](const auto& m) { return m.first == "$ref"; });
    auto joined = merge(**named, rest, depth + 1);
    return joined ? merge(*joined, other, depth + 1) : joined;
  }

  // Applies one schema's rules to properties that only the other one names.
  result<void> merge_properties(json_value& a, const json_value& b, std::size_t depth) {
    json_value none;
    none.is = json_value::kind::object;
    const json_value* of_b = b.find("properties");
    const json_value of_a = a.find("properties") ? *a.find("properties") : none;
    if (!of_b && of_a.members.empty())
      return {};
    json_value out = none;
    const auto add = [&](const std::string& name, const json_value& value,
                         const json_value* other) -> result<void> {
      auto both = other ? merge(value, *other, depth + 1) : result<json_value>(value);
      if (!both)
        return both.error();
      out.members.emplace_back(name, *std::move(both));
      return {};
    };
    for (const auto& [name, value] : of_a.members) {
      const auto* same = of_b ? of_b->find(name) : nullptr;
      if (auto ok = add(name, value, same ? same : b.find("additionalProperties")); !ok)
        return ok;
    }
    if (of_b)
      for (const auto& [name, value] : of_b->members)
        if (!of_a.find(name))
          if (auto ok = add(name, value, a.find("additionalProperties")); !ok)
            return ok;
    if (json_value* own = find(a, "properties"))
      *own = std::move(out);
    else
      a.members.emplace_back("properties", std::move(out));
    return {};
  }

  result<json_value> merge_keyword(const std::string& keyword, const json_value& a,
                                   const json_value& b, std::size_t depth) {
    if (keyword == "type")
      return merge_types(a, b);
    if (keyword == "required")
      return joined(a, b);
    if (keyword == "enum" && a.is_array() && b.is_array()) {
      json_value out = a;
      std::erase_if(out.items, [&](const json_value& v) {
        return std::find(b.items.begin(), b.items.end(), v) == b.items.end();
      });
      return out;
    }
    if (is_one_of(keyword, {"additionalProperties", "items", "propertyNames"}) && !a.is_array() &&
        !b.is_array())
      return merge(a, b, depth + 1);
    const bool is_least = is_one_of(
        keyword, {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"});
    const bool is_most = is_one_of(
        keyword, {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"});
    if ((is_least || is_most) && a.is_number() && b.is_number()) {
      const auto left = decimal_of(a.text), right = decimal_of(b.text);
      if (left && right)
        return is_less(*left, *right) == is_least ? b : a;
    }
    return fail(errc::unsupported_parameter,
                "two different '{}' that must both hold are not supported in a schema", keyword);
  }

  static result<json_value> merge_types(const json_value& a, const json_value& b) {
    const auto names = [](const json_value& v) {
      return v.is_array() ? v.items : std::vector<json_value>{v};
    };
    json_value out;
    out.is = json_value::kind::array;
    const auto left = names(a), right = names(b);
    const auto has = [](const auto& all, std::string_view name) {
      return std::any_of(all.begin(), all.end(), [&](const auto& v) { return v.text == name; });
    };
    for (const auto& v : left)
      if (has(right, v.text) || (v.text == "integer" && has(right, "number")))
        out.items.push_back(v);
    for (const auto& v : right)
      if (v.text == "integer" && has(left, "number") && !has(left, "integer"))
        out.items.push_back(v);
    return out.items.empty() ? boolean(false) : out; // a type that nothing matches
  }

  static result<json_value> joined(const json_value& a, const json_value& b) {
    json_value out = a;
    for (const auto& v : b.items)
      if (std::find(out.items.begin(), out.items.end(), v) == out.items.end())
        out.items.push_back(v);
    return out;
  }

  const schema_resolver& resolve_;
  std::size_t merged_ = 0;
};

} // namespace

bool is_annotation(std::string_view keyword) noexcept {
  constexpr std::array<std::string_view, 13> all{
      "title",    "description", "default", "examples",   "example",       "$schema",    "$comment",
      "readOnly", "writeOnly",   "$defs",   "deprecated", "discriminator", "definitions"};
  return std::find(all.begin(), all.end(), keyword) != all.end();
}

result<json_value> merge_schemas(const json_value& a, const json_value& b,
                                 const schema_resolver& resolve) {
  return schema_merger(resolve).merge(a, b, 0);
}

} // namespace baton::grammar
