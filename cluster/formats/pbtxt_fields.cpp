#include "cluster/formats/pbtxt_fields.hpp"

#include <fmt/format.h>

namespace baton::cluster {

const pbtxt_fields::json* pbtxt_fields::find(std::string_view name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->empty() ? nullptr : &at->back();
}

std::vector<const pbtxt_fields::json*> pbtxt_fields::all(std::string_view name) const {
  std::vector<const json*> values;
  if (const auto at = object_.find(name); at != object_.end())
    for (const auto& value : *at)
      values.push_back(&value);
  return values;
}

std::string pbtxt_fields::text(std::string_view name) {
  const auto* value = find(name);
  if (value && !value->is_string())
    refuse(name, "a text");
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

bool pbtxt_fields::flag(std::string_view name) {
  const auto* value = find(name);
  if (value && !value->is_boolean())
    refuse(name, "true or false");
  return value && value->is_boolean() && value->get<bool>();
}

std::int64_t pbtxt_fields::integer(std::string_view name, std::int64_t otherwise,
                                   std::int64_t most) {
  const auto* value = find(name);
  if (!value)
    return otherwise;
  if (!value->is_number_integer() || value->get<std::int64_t>() < 0 ||
      value->get<std::int64_t>() > most) {
    refuse(name, fmt::format("an integer from 0 to {}", most));
    return otherwise;
  }
  return value->get<std::int64_t>();
}

std::vector<std::int64_t> pbtxt_fields::integers(std::string_view name, std::int64_t least,
                                                 std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const auto* value : all(name)) {
    if (!value->is_number_integer() || value->get<std::int64_t>() < least ||
        value->get<std::int64_t>() > most) {
      refuse(name, fmt::format("an integer from {} to {}", least, most));
      break;
    }
    values.push_back(value->get<std::int64_t>());
  }
  return values;
}

pbtxt_fields pbtxt_fields::message(std::string_view name) {
  static const json nothing = json::object();
  const auto* value = find(name);
  if (value && !value->is_object()) {
    refuse(name, "a message");
    value = nullptr;
  }
  return {value ? *value : nothing, fmt::format("{}.{}", path_, name)};
}

std::vector<pbtxt_fields> pbtxt_fields::messages(std::string_view name) {
  std::vector<pbtxt_fields> found;
  for (const auto* value : all(name)) {
    if (!value->is_object()) {
      refuse(name, "a message");
      break;
    }
    found.emplace_back(*value, fmt::format("{}.{}", path_, name));
  }
  return found;
}

void pbtxt_fields::refuse(std::string_view name, std::string_view needed) {
  fail_with(fail(errc::bad_config, "{}.{}: {} is needed", path_, name, needed));
}

void pbtxt_fields::fail_with(error e) {
  if (!wrong_)
    wrong_ = std::move(e);
}

} // namespace baton::cluster
