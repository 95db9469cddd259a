#include "runtime/grammar/json_schema/json_schema.hpp"

#include "runtime/grammar/automata/text_reader.hpp"
#include "runtime/grammar/json_schema/schema_reader.hpp"
#include "runtime/grammar/json_schema/schema_reference.hpp"

#include <algorithm>
#include <array>

namespace baton::grammar {
namespace {

// Each use of a combination is read again.
constexpr std::size_t reads_max = 20'000;

constexpr std::array<std::string_view, 5> object_keywords{
    "properties", "required", "additionalProperties", "propertyNames", "minProperties"};
constexpr std::array<std::string_view, 4> array_keywords{"items", "prefixItems", "minItems",
                                                         "maxItems"};
constexpr std::array<std::string_view, 4> string_keywords{"minLength", "maxLength", "pattern",
                                                          "format"};
constexpr std::array<std::string_view, 5> number_keywords{"minimum", "maximum", "exclusiveMinimum",
                                                          "exclusiveMaximum", "multipleOf"};
constexpr std::array<std::string_view, 9> other_keywords{
    "$ref", "allOf", "anyOf", "oneOf", "enum", "const", "type", "maxProperties", "additionalItems"};

bool has(std::span<const std::string_view> keywords, std::string_view keyword) {
  return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
}

bool has_only_annotations(const json_value& schema) {
  return std::all_of(schema.members.begin(), schema.members.end(),
                     [](const auto& m) { return is_annotation(m.first); });
}

json_value without(json_value schema, std::string_view keyword) {
  std::erase_if(schema.members, [&](const auto& m) { return m.first == keyword; });
  return schema;
}

// Whether a value has a type; an integer is a number without a fraction.
bool is_of_type(const json_value& value, std::string_view type) {
  switch (value.is) {
  case json_value::kind::null:
    return type == "null";
  case json_value::kind::boolean:
    return type == "boolean";
  case json_value::kind::string:
    return type == "string";
  case json_value::kind::array:
    return type == "array";
  case json_value::kind::object:
    return type == "object";
  case json_value::kind::number:
    break;
  }
  const auto number = decimal_of(value.text);
  return type == "number" || (type == "integer" && number && number->fraction.empty());
}

} // namespace

result<expression> schema_reader::read() {
  return read_pending(read(root_, {"#", 0}));
}

// References are read one after the other, so a chain of references does not recurse.
result<expression> schema_reader::read_pending(result<expression> out) {
  while (out && !pending_.empty()) {
    const auto [schema, rule] = pending_.front();
    pending_.pop_front();
    auto one = read(*schema, {"$ref", 0});
    if (!one)
      return one;
    to_.define(rule, *one);
  }
  return out;
}

result<expression> schema_reader::read(const json_value& schema, const location& where) {
  if (where.depth > grammar_limits::depth_max || ++reads_ > reads_max)
    return wrong(where, "it is nested too deeply, or combines too many schemas");
  if (schema.is_boolean())
    return schema.boolean ? any_value() : to_.nothing();
  if (!schema.is_object())
    return wrong(where, "a schema is an object, true or false");
  if (auto ok = check_keywords(schema, where); !ok)
    return ok.error();
  if (const auto* reference = schema.find("$ref"))
    return read_reference(schema, *reference, where);
  if (const auto* all = schema.find("allOf"))
    return read_all(schema, *all, where);
  for (const auto* keyword : {"anyOf", "oneOf"})
    if (schema.find(keyword))
      return read_any(schema, keyword, where);
  if (schema.find("enum") || schema.find("const"))
    return read_values(schema, where);
  return read_types(schema, where);
}

result<void> schema_reader::check_keywords(const json_value& schema, const location& where) const {
  for (const auto& [keyword, value] : schema.members) {
    const bool is_false = value.is_boolean() && !value.boolean;
    const bool is_off = is_false && (keyword == "uniqueItems" || keyword == "nullable");
    if (!has(object_keywords, keyword) && !has(array_keywords, keyword) &&
        !has(string_keywords, keyword) && !has(number_keywords, keyword) &&
        !has(other_keywords, keyword) && !is_annotation(keyword) && !is_off)
      return unsupported(where, fmt::format("'{}'", keyword.substr(0, 64)));
  }
  return {};
}

result<const json_value*> schema_reader::resolve(const std::string& reference) const {
  return find_reference(root_, reference);
}

result<json_value> schema_reader::joined(const json_value& a, const json_value& b) const {
  return merge_schemas(a, b, [this](const std::string& r) { return resolve(r); });
}

result<expression> schema_reader::read_reference(const json_value& schema,
                                                 const json_value& reference,
                                                 const location& where) {
  if (!reference.is_string())
    return wrong(where, "'$ref' must be a string");
  auto named = resolve(reference.text);
  if (!named)
    return named.error();
  const json_value rest = without(schema, "$ref");
  if (!has_only_annotations(rest)) {
    auto both = joined(**named, rest);
    return both ? read(*both, where.at("$ref")) : both.error();
  }
  if (bare_) // the rule of a schema is its JSON
    return read(**named, where.at("$ref"));
  const auto it = referred_.find(*named);
  if (it != referred_.end())
    return it->second;
  const auto rule = to_.add_rule(reference.text);
  pending_.emplace_back(*named, rule);
  return referred_.emplace(*named, to_.call(rule)).first->second;
}

result<expression> schema_reader::read_all(const json_value& schema, const json_value& all,
                                           const location& where) {
  if (!all.is_array() || all.items.empty())
    return wrong(where, "'allOf' must be an array of schemas");
  json_value out = without(schema, "allOf");
  for (const auto& one : all.items) {
    auto both = joined(out, one);
    if (!both)
      return both.error();
    out = *std::move(both);
  }
  return read(out, where.at("allOf"));
}

result<expression> schema_reader::read_any(const json_value& schema, const std::string& keyword,
                                           const location& where) {
  const auto& all = *schema.find(keyword);
  if (!all.is_array() || all.items.empty())
    return wrong(where, "'{}' must be an array of schemas", keyword);
  const json_value rest = without(schema, keyword);
  const bool is_alone = has_only_annotations(rest);
  std::vector<expression> ways;
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    const auto inner = where.at(fmt::format("{}/{}", keyword, i));
    auto both = is_alone ? result<json_value>(all.items[i]) : joined(all.items[i], rest);
    if (!both)
      return both.error();
    // A copy must not replace the document: `$ref`s are resolved from its root.
    auto way = read(is_alone ? all.items[i] : *both, inner);
    if (!way)
      return way;
    ways.push_back(*way);
  }
  return to_.shared(keyword, to_.either(std::move(ways)));
}

// Beside `enum` or `const`, only `type` is checked, and `format` is an annotation. Other keywords
// are refused.
result<expression> schema_reader::read_values(const json_value& schema, const location& where) {
  const auto* all = schema.find("enum");
  const auto* only = schema.find("const");
  const auto* type = schema.find("type");
  if (all && (!all->is_array() || all->items.empty()))
    return wrong(where, "'enum' must be an array of values");
  for (const auto& [keyword, value] : schema.members)
    if (keyword != "enum" && keyword != "const" && keyword != "type" && keyword != "format" &&
        !is_annotation(keyword))
      return unsupported(where, fmt::format("'{}' beside '{}'", keyword, all ? "enum" : "const"));
  const auto is_allowed = [&](const json_value& v) {
    if (only && all && v != *only)
      return false;
    if (!type)
      return true;
    const auto names = type->is_array() ? type->items : std::vector<json_value>{*type};
    return std::any_of(names.begin(), names.end(),
                       [&](const json_value& name) { return is_of_type(v, name.text); });
  };
  std::vector<expression> ways;
  for (const auto& v : all ? all->items : std::vector<json_value>{*only})
    if (is_allowed(v))
      ways.push_back(bare_ && v.is_string() ? bare_string(v.text) : to_.text(to_text(v)));
  return to_.shared("enum", to_.either(std::move(ways)));
}

// Without `type`, the keywords of a type imply that type.
result<expression> schema_reader::read_types(const json_value& schema, const location& where) {
  std::vector<std::string> types;
  if (const auto* type = schema.find("type")) {
    if (type->is_boolean()) // two types that cannot be merged
      return to_.nothing();
    for (const auto& name : type->is_array() ? type->items : std::vector<json_value>{*type}) {
      if (!name.is_string())
        return wrong(where, "'type' must be a string or an array of strings");
      types.push_back(name.text);
    }
  } else {
    const auto has_any = [&](std::span<const std::string_view> keywords) {
      return std::any_of(keywords.begin(), keywords.end(),
                         [&](std::string_view w) { return schema.find(w) != nullptr; });
    };
    if (has_any(object_keywords) || schema.find("maxProperties"))
      types.emplace_back("object");
    if (has_any(array_keywords))
      types.emplace_back("array");
    if (has_any(string_keywords))
      types.emplace_back("string");
    if (has_any(number_keywords))
      types.emplace_back("number");
    if (types.empty())
      return any_value();
  }
  std::vector<expression> ways;
  for (const auto& type : types) {
    auto way = read_type(type, schema, where);
    if (!way)
      return way;
    ways.push_back(*way);
  }
  return to_.either(std::move(ways));
}

result<expression> schema_reader::read_type(const std::string& type, const json_value& schema,
                                            const location& where) {
  if (type == "object" || type == "array") { // in JSON, with all that they hold
    const auto bare = std::exchange(bare_, nullptr);
    auto out = type == "object" ? read_object(schema, where) : read_array(schema, where);
    bare_ = bare;
    return out;
  }
  if (type == "string")
    return read_string(schema, where);
  if (type == "integer" || type == "number")
    return read_number(schema, type == "integer", where);
  if (type == "boolean")
    return json_.boolean();
  if (type == "null")
    return json_.null();
  return wrong(where, "there is no type '{}'", type.substr(0, 64));
}

namespace {

// $id is a name for other documents: references begin with '#'.
result<json_value> parse_schema(std::string_view schema) {
  if (auto ok = check_source(schema, "JSON schema"); !ok)
    return ok.error();
  auto root = parse_json(schema);
  return root ? without(*std::move(root), "$id") : root;
}

} // namespace

result<expression> read_json_schema(grammar_builder& to, std::string_view schema) {
  const auto root = parse_schema(schema);
  return root ? schema_reader(to, *root).read() : root.error();
}

result<schema_members> read_schema_members(grammar_builder& to, std::string_view schema,
                                           const bare_text* texts) {
  const auto root = parse_schema(schema);
  return root ? schema_reader(to, *root).read_members_of_root(texts) : root.error();
}

} // namespace baton::grammar
