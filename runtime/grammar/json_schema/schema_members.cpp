// An object's members for notations other than JSON's, and texts that are written bare.
#include "runtime/grammar/automata/text_without.hpp"
#include "runtime/grammar/json_schema/schema_reader.hpp"
#include "runtime/grammar/json_schema/value_kinds.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

constexpr std::size_t joins_max = 32; // of the root with what it refers to

// Characters with which a value of one of these kinds may begin.
character_set beginnings_of(value_kinds kinds) {
  character_set out;
  const auto add = [&](json_value::kind kind, std::string_view first) {
    if ((kinds & bit_of(kind)) != 0)
      for (const char c : first)
        out.add(static_cast<char32_t>(c));
  };
  add(json_value::kind::object, "{ \t\r\n");
  add(json_value::kind::array, "[ \t\r\n");
  add(json_value::kind::number, "-0123456789 \t\r\n");
  return out;
}

} // namespace

// The root with its references and `allOf` joined.
result<json_value> schema_reader::object_of_root() const {
  json_value out = root_;
  for (std::size_t n = 0; out.find("$ref") || out.find("allOf"); ++n) {
    if (n > joins_max)
      return wrong({"#", 0}, "it is nested too deeply");
    const bool is_reference = out.find("$ref") != nullptr;
    const auto* keyword = is_reference ? "$ref" : "allOf";
    const json_value parts = *out.find(keyword);
    std::erase_if(out.members, [&](const auto& m) { return m.first == keyword; });
    for (const auto& part : is_reference ? std::vector<json_value>{parts} : parts.items) {
      const auto target = is_reference ? resolve(part.text) : result<const json_value*>(&part);
      if (!target)
        return target.error();
      auto both = joined(out, **target);
      if (!both)
        return both.error();
      out = *std::move(both);
    }
  }
  return out;
}

result<schema_members> schema_reader::read_members_of_root(const bare_text* texts) {
  const location root{"#", 0};
  const auto object = object_of_root();
  if (!object)
    return object.error();
  if (auto ok = check_keywords(*object, root); !ok)
    return ok.error();
  for (const auto* keyword :
       {"anyOf", "oneOf", "enum", "const", "propertyNames", "minProperties", "maxProperties"})
    if (object->find(keyword))
      return unsupported(root, fmt::format("'{}' in this model's format of calls", keyword));
  if ((kinds_of(*object, root_) & bit_of(json_value::kind::object)) == 0)
    return wrong(root, "arguments are an object");
  schema_members out;
  auto all = named_members(*object, root);
  if (!all)
    return all.error();
  for (const auto& m : *all) {
    auto value = read_written(*m.schema, root.at(fmt::format("properties/{}", m.name)), texts);
    if (!value)
      return value.error();
    out.named.push_back({m.name, *value, m.is_required});
  }
  const auto* further = object->find("additionalProperties");
  const bool has_members = object->find("properties") || object->find("required");
  if (out.named.empty() && (further ? !further->is_boolean() || further->boolean : !has_members)) {
    static const json_value any{.is = json_value::kind::boolean, .boolean = true};
    auto value = read_written(further ? *further : any, root.at("additionalProperties"), texts);
    if (!value)
      return value.error();
    out.others = *value;
  }
  auto rest = read_pending(to_.empty());
  return rest ? result<schema_members>(std::move(out)) : rest.error();
}

result<expression> schema_reader::read_written(const json_value& schema, const location& where,
                                               const bare_text* texts) {
  bare_ = texts;
  const auto kinds = kinds_of(schema, root_);
  never_first_ = kinds == all_kinds ? character_set() : beginnings_of(kinds);
  auto value = read(schema, where);
  bare_ = nullptr;
  return value ? to_.shared("value", *value) : value;
}

expression schema_reader::bare_string(std::string_view text) {
  const bool can_be = text.find(bare_->end) == std::string_view::npos;
  return can_be ? to_.sequence({bare_->open, to_.text(text), bare_->close}) : to_.nothing();
}

// Without the character that `end` begins with: a counted text cannot end inside of it.
character_set schema_reader::within_bare(const character_set& set) const {
  const auto first = static_cast<char32_t>(bare_->end.front());
  return set.without({{first, first}}).without(never_first_);
}

expression schema_reader::bare_string_of_length(std::uint32_t least,
                                                std::optional<std::uint32_t> most) {
  const auto one = to_.characters(within_bare(character_set::all()));
  return to_.sequence({bare_->open, to_.repeat(one, least, most), bare_->close});
}

expression schema_reader::any_string() {
  if (!bare_)
    return json_.string();
  return to_.sequence({bare_->open, text_without(to_, bare_->end, never_first_), bare_->close});
}

// Any text reads as some value, so with bare texts it is one.
expression schema_reader::any_value() {
  return bare_ ? any_string() : json_.value();
}

} // namespace baton::grammar
