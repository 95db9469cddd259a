#include "cluster/config/readers/triton_config.hpp"

#include "gateway/api/kserve/models/kserve_config_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace baton::cluster {
namespace {

using gateway::config_count;
using gateway::config_field;
using gateway::config_type;
using nlohmann::ordered_json;

bool is_enumerator_of(std::string_view words, std::string_view word) {
  const auto all = fmt::format(" {} ", words);
  return !word.empty() && word.find(' ') == word.npos &&
         all.find(fmt::format(" {} ", word)) != all.npos;
}

bool is_of_type(const config_field& f, const ordered_json& value) {
  switch (f.type) {
  case config_type::text:
    return value.is_string();
  case config_type::flag:
    return value.is_boolean();
  case config_type::whole:
    return value.is_number_integer();
  case config_type::real:
    return value.is_number();
  case config_type::enumeration:
    return value.is_string() && is_enumerator_of(f.target, value.get_ref<const std::string&>());
  case config_type::message:
    break;
  }
  return value.is_object();
}

std::string needed_of(const config_field& f) {
  constexpr std::array words{"a text", "true or false", "an integer", "a number", "", "a message"};
  return f.type == config_type::enumeration
             ? fmt::format("one of its values, such as {}", f.target.substr(0, f.target.find(' ')))
             : std::string(words[static_cast<std::size_t>(f.type)]);
}

error wrong_type(const config_field& f, const std::string& path) {
  return fail(errc::bad_config, "{} must be {}", path, needed_of(f));
}

class pbtxt_reader {
public:
  ordered_json message(const ordered_json& from, std::string_view name, const std::string& path) {
    auto made = ordered_json::object();
    for (const auto& [key, values] : from.items()) {
      const auto* f = gateway::find_config_field(name, key);
      const auto at = path.empty() ? key : path + "." + key;
      if (!f)
        out.unknown.push_back(at.substr(0, 64));
      else
        put(made, *f, values, at);
    }
    return made;
  }

  given_config out;
  std::optional<error> wrong;

private:
  void put(ordered_json& made, const config_field& f, const ordered_json& values,
           const std::string& path) {
    if (f.count == config_count::many) {
      auto& all = made[std::string(f.name)] = ordered_json::array();
      for (const auto& value : values)
        all.push_back(single(f, value, path));
    } else if (f.count == config_count::map) {
      auto& all = made[std::string(f.name)] = ordered_json::object();
      for (const auto& value : values)
        put_entry(all, f, value, path);
    } else if (!values.empty()) {
      made[std::string(f.name)] = single(f, values.back(), path);
    }
  }

  // A map entry: { key: ... value: ... }
  void put_entry(ordered_json& all, const config_field& f, const ordered_json& entry,
                 const std::string& path) {
    if (!entry.is_object())
      return fail_with(fail(errc::bad_config, "{} must be {{ key: ... value: ... }}", path));
    const auto last = [&](const char* name) {
      return entry.contains(name) && !entry[name].empty() ? entry[name].back() : ordered_json();
    };
    const auto key = last("key");
    const auto value = last("value");
    const auto name = key.is_string() ? key.get<std::string>() : key.is_null() ? "" : key.dump();
    const auto otherwise =
        f.type == config_type::message ? ordered_json::object() : ordered_json("");
    all[name] = single(f, value.is_null() ? otherwise : value, fmt::format("{}.{}", path, name));
  }

  ordered_json single(const config_field& f, const ordered_json& value, const std::string& path) {
    if (f.type == config_type::flag && !value.is_boolean())
      return flag(f, value, path);
    if (f.type == config_type::enumeration && value.is_number_integer())
      return enumerator(f, value.get<std::int64_t>(), path);
    if (!is_of_type(f, value)) {
      fail_with(wrong_type(f, path));
      return {};
    }
    return f.type == config_type::message ? message(value, f.target, path) : value;
  }

  // 0 and 1 are valid in the text format; parse_pbtxt handles the other spellings.
  ordered_json flag(const config_field& f, const ordered_json& value, const std::string& path) {
    if (value != 0 && value != 1)
      fail_with(wrong_type(f, path));
    return value == 1;
  }

  // The enumerator with this number.
  ordered_json enumerator(const config_field& f, std::int64_t number, const std::string& path) {
    auto rest = f.target;
    for (; number > 0 && rest.find(' ') != rest.npos; --number)
      rest.remove_prefix(rest.find(' ') + 1);
    if (number != 0)
      fail_with(wrong_type(f, path));
    return std::string(rest.substr(0, rest.find(' ')));
  }

  void fail_with(error e) {
    if (!wrong)
      wrong = std::move(e);
  }
};

result<void> check(const ordered_json& given, std::string_view message, const std::string& path);

result<void> check_value(const config_field& f, const ordered_json& value,
                         const std::string& path) {
  if (!is_of_type(f, value))
    return wrong_type(f, path);
  return f.type == config_type::message ? check(value, f.target, path) : result<void>();
}

result<void> check(const ordered_json& given, std::string_view message, const std::string& path) {
  for (const auto& [key, value] : given.items()) {
    const auto* f = gateway::find_config_field(message, key);
    const auto at = path.empty() ? key : path + "." + key;
    if (!f)
      return fail(errc::bad_config, "{} is not known", at.substr(0, 64));
    const bool is_list = f->count == config_count::many;
    if (!is_list && f->count != config_count::map) {
      if (auto ok = check_value(*f, value, at); !ok)
        return ok;
      continue;
    }
    if (is_list ? !value.is_array() : !value.is_object())
      return fail(errc::bad_config, "{} must be {}", at, is_list ? "an array" : "an object");
    for (const auto& one : value)
      if (auto ok = check_value(*f, one, at); !ok)
        return ok;
  }
  return {};
}

} // namespace

result<given_config> given_config_of(const ordered_json& parsed) {
  pbtxt_reader reader;
  reader.out.json = reader.message(parsed, "", "");
  if (reader.wrong)
    return *std::move(reader.wrong);
  return std::move(reader.out);
}

result<void> check_triton_config(std::string_view json) {
  if (json.size() > triton_config_bytes_max)
    return fail(errc::bad_config, "it has {} bytes, at most {} are allowed", json.size(),
                triton_config_bytes_max);
  const auto given = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    return fail(errc::bad_config, "it is no JSON object");
  return check(given, "", "");
}

} // namespace baton::cluster
