// Objects and arrays of a JSON schema.
#include "runtime/grammar/json_schema/schema_reader.hpp"

#include <algorithm>
#include <charconv>

namespace baton::grammar {
namespace {

// Each character of an excluded name adds a state.
constexpr std::size_t excluded_name_bytes_max = 256;

} // namespace

result<std::optional<std::uint32_t>> schema_reader::count(const json_value& schema,
                                                          std::string_view keyword,
                                                          const location& where) const {
  const auto* value = schema.find(keyword);
  if (!value)
    return std::optional<std::uint32_t>{};
  const auto number = value->is_number() ? decimal_of(value->text) : std::nullopt;
  if (!number || number->is_negative || !number->fraction.empty())
    return wrong(where, "'{}' must be an integer from 0", keyword);
  std::uint64_t n = 0;
  std::from_chars(number->whole.data(), number->whole.data() + number->whole.size(), n);
  if (n > grammar_limits::repeat_max)
    return wrong(where, "'{}' is above {}", keyword, grammar_limits::repeat_max);
  return std::optional(static_cast<std::uint32_t>(n));
}

result<expression> schema_reader::read_object(const json_value& schema, const location& where) {
  const auto* further = schema.find("additionalProperties");
  const bool has_members = schema.find("properties") || schema.find("required");
  auto all = read_members(schema, where);
  if (!all)
    return all.error();
  std::optional<expression> value; // of additional members
  if (further ? !further->is_boolean() || further->boolean : !has_members) {
    auto read_value = further ? read(*further, where.at("additionalProperties"))
                              : result<expression>(json_.value());
    if (!read_value)
      return read_value;
    value = *read_value;
  }
  if (all->empty())
    return value ? read_map(schema, *value, where) : read_map(schema, to_.nothing(), where);
  if (value && schema.find("propertyNames"))
    return unsupported(where, "'propertyNames' beside 'properties' and 'additionalProperties'");
  const auto least = count(schema, "minProperties", where);
  const auto most = count(schema, "maxProperties", where);
  if (!least || !most)
    return least ? most.error() : least.error();
  const auto required =
      std::count_if(all->begin(), all->end(), [](const member& m) { return m.is_required; });
  if (*least && **least > required)
    return unsupported(where, "'minProperties' above the number of 'required'");
  if (*most && (value || **most < all->size()))
    return unsupported(where, "'maxProperties' below the number of 'properties'");
  std::optional<expression> additional;
  if (value) {
    std::vector<std::string> names;
    if (const auto* properties = schema.find("properties"))
      for (const auto& [name, of] : properties->members)
        names.push_back(name);
    if (const auto* required_names = schema.find("required"))
      for (const auto& v : required_names->items)
        names.push_back(v.text);
    if (std::any_of(names.begin(), names.end(),
                    [](const auto& n) { return n.size() > excluded_name_bytes_max; }))
      return unsupported(where, "a name of more than 256 bytes beside 'additionalProperties'");
    additional = to_.shared("member", json_.member(json_.string_except(std::move(names)), *value));
  }
  return members_of(*all, additional);
}

// Members of `properties`, then further `required` ones.
result<std::vector<schema_reader::named_schema>>
schema_reader::named_members(const json_value& schema, const location& where) const {
  static const json_value none{.is = json_value::kind::object};
  const auto* properties = schema.find("properties");
  const auto* required = schema.find("required");
  if (properties && !properties->is_object())
    return wrong(where, "'properties' must be an object");
  const auto is_name = [](const json_value& v) { return v.is_string(); };
  if (required && (!required->is_array() ||
                   !std::all_of(required->items.begin(), required->items.end(), is_name)))
    return wrong(where, "'required' must be an array of names");
  std::vector<named_schema> named;
  for (const auto& [name, of] : properties ? properties->members : none.members)
    named.push_back({name, &of});
  const auto* further = schema.find("additionalProperties");
  static const json_value any{.is = json_value::kind::boolean, .boolean = true};
  if (required)
    for (const auto& v : required->items)
      if (!properties || !properties->find(v.text))
        named.push_back({v.text, further ? further : &any});
  for (auto& m : named)
    m.is_required = required && std::any_of(required->items.begin(), required->items.end(),
                                            [&](const json_value& v) { return v.text == m.name; });
  return named;
}

result<std::vector<schema_reader::member>> schema_reader::read_members(const json_value& schema,
                                                                       const location& where) {
  const auto named = named_members(schema, where);
  if (!named)
    return named.error();
  std::vector<member> out;
  for (const auto& m : *named) {
    auto value = read(*m.schema, where.at(fmt::format("properties/{}", m.name.substr(0, 64))));
    if (!value)
      return value.error();
    out.push_back({to_.text(quoted(m.name)), *value, m.is_required});
  }
  return out;
}

// `propertyNames`: a schema for strings.
result<expression> schema_reader::read_name(const json_value& schema, const location& where) {
  const auto* names = schema.find("propertyNames");
  if (!names)
    return json_.string();
  json_value type{.is = json_value::kind::object};
  type.members.emplace_back("type", json_value{.is = json_value::kind::string, .text = "string"});
  auto both = joined(*names, type);
  return both ? read(*both, where.at("propertyNames")) : both.error();
}

// An object without named members. A parser merges duplicate names, so counts beyond 1 are refused.
result<expression> schema_reader::read_map(const json_value& schema, expression value,
                                           const location& where) {
  const auto least = count(schema, "minProperties", where);
  const auto most = count(schema, "maxProperties", where);
  if (!least || !most)
    return least ? most.error() : least.error();
  if (least->value_or(0) > 1)
    return unsupported(where, "'minProperties' above 1 without 'properties'");
  const auto name = read_name(schema, where);
  if (!name)
    return name;
  const auto one = to_.shared("member", json_.member(*name, value));
  const auto inner = items_of({}, one, least->value_or(0), *most);
  return to_.sequence({to_.text("{"), json_.gap(), inner, to_.text("}")});
}

// Each suffix of the members is a rule, in two forms: with and without a preceding member. So an
// optional member can be omitted together with its comma.
expression schema_reader::members_of(const std::vector<member>& all,
                                     std::optional<expression> additional) {
  const auto comma = to_.sequence({to_.text(","), json_.gap()});
  const auto further =
      additional ? to_.repeat(to_.sequence({comma, *additional}), 0, std::nullopt) : to_.empty();
  auto following = to_.sequence({further, json_.gap()}); // with a preceding member
  auto first = additional
                   ? to_.either({to_.sequence({*additional, further, json_.gap()}), to_.empty()})
                   : to_.empty();
  for (auto m = all.rbegin(); m != all.rend(); ++m) {
    const auto rest = to_.shared("members", following);
    const auto one = to_.shared("member", to_.sequence({json_.member(m->name, m->value), rest}));
    const auto with_comma = to_.sequence({comma, one});
    following = m->is_required ? with_comma : to_.either({with_comma, rest});
    first = m->is_required ? one : to_.either({one, to_.shared("members", first)});
  }
  return to_.sequence({to_.text("{"), json_.gap(), first, to_.text("}")});
}

result<expression> schema_reader::read_array(const json_value& schema, const location& where) {
  const auto least = count(schema, "minItems", where);
  const auto most = count(schema, "maxItems", where);
  if (!least || !most)
    return least ? most.error() : least.error();
  const auto* items = schema.find("items");
  const bool is_old = items && items->is_array(); // draft 7's form of prefixItems
  const auto* tuple = is_old ? items : schema.find("prefixItems");
  const auto* further = is_old ? schema.find("additionalItems") : items;
  if (tuple && !tuple->is_array())
    return wrong(where, "'prefixItems' must be an array of schemas");
  std::vector<expression> first;
  for (std::size_t i = 0; tuple && i < tuple->items.size(); ++i) {
    auto one = read(tuple->items[i], where.at(fmt::format("prefixItems/{}", i)));
    if (!one)
      return one;
    first.push_back(*one);
  }
  std::optional<expression> rest;
  if (further) {
    auto one = read(*further, where.at("items"));
    if (!one)
      return one;
    rest = to_.shared("item", *one);
  } else if (!tuple || least->value_or(0) > first.size()) {
    rest = json_.value();
  }
  if (*most && **most < first.size())
    first.resize(**most);
  const auto inner = items_of(first, rest, least->value_or(0), *most);
  return to_.sequence({to_.text("["), json_.gap(), inner, to_.text("]")});
}

// The content of the brackets, after the first gap.
expression schema_reader::items_of(const std::vector<expression>& first,
                                   std::optional<expression> rest, std::uint32_t least,
                                   std::optional<std::uint32_t> most) {
  const auto comma = to_.sequence({to_.text(","), json_.gap()});
  const auto count = static_cast<std::uint32_t>(first.size());
  // How many further items must and may follow `before` others.
  const auto further = [&](std::uint32_t before) {
    const auto must = least > before ? least - before : 0;
    if (!rest)
      return must > 0 ? to_.nothing() : to_.empty();
    const auto may = most ? std::optional(*most > before ? *most - before : 0) : std::nullopt;
    return to_.repeat(to_.sequence({comma, *rest}), must, may);
  };
  if (count == 0) {
    if (most == 0u || !rest)
      return least > 0 ? to_.nothing() : to_.empty();
    const auto some = to_.sequence({*rest, further(1), json_.gap()});
    return least > 0 ? some : to_.optional(some);
  }
  auto following = to_.sequence({further(count), json_.gap()});
  for (std::uint32_t i = count; i-- > 0;) {
    const auto remaining_items = to_.shared("items", following);
    const auto one = to_.sequence({first[i], remaining_items});
    const auto next = i > 0 ? to_.sequence({comma, one}) : one;
    const auto end = i > 0 ? json_.gap() : to_.empty();
    following = i >= least ? to_.either({end, next}) : next;
  }
  return following;
}

} // namespace baton::grammar
