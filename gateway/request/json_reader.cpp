#include "gateway/request/json_reader.hpp"

#include "gateway/base/json_text.hpp"
#include "schema/nearest.hpp"

#include <algorithm>
#include <limits>

namespace baton::gateway {
namespace {

// The depth of nesting, found before a parser (or a destructor) recurses into it.
std::size_t depth_of(std::string_view text) noexcept {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// The library's message has the position, but also echoes the input: only the first part is shown.
std::string parse_complaint(const json::exception& e) {
  std::string text = e.what();
  if (const auto at = text.find("; last read"); at != std::string::npos) {
    text.resize(at);
  }
  if (const auto at = text.find("] "); at != std::string::npos) {
    text.erase(0, at + 2);
  }
  return text;
}

} // namespace

result<json> parse_json(std::string_view text, std::size_t depth_max) {
  text = without_mark(text);
  if (without_mark(text).size() != text.size()) { // the library would skip this one too
    return fail(errc::invalid_request, "the body is not valid JSON: two byte order marks");
  }
  if (const auto depth = depth_of(text); depth > depth_max) {
    return fail(errc::invalid_request, "the JSON is nested {} levels deep; the limit is {}", depth,
                depth_max);
  }
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    return fail(errc::invalid_request, "the body is not valid JSON: {}", parse_complaint(e));
  }
}

result<json> parse_body(std::string_view body, std::size_t depth_max) {
  auto parsed = parse_json(body, depth_max);
  if (parsed && !parsed->is_object()) {
    return fail(errc::invalid_request, "the body must be a JSON object, not {}",
                kind_of_json(*parsed));
  }
  return parsed;
}

std::string_view kind_of_json(const json& value) noexcept {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "an array";
  case json::value_t::string:
    return "a string";
  case json::value_t::boolean:
    return "a boolean";
  case json::value_t::number_integer:
  case json::value_t::number_unsigned:
    return "an integer";
  case json::value_t::number_float:
    return "a number with a fraction";
  default:
    return "something else";
  }
}

field_reader::field_reader(const json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

const json* field_reader::find(std::string_view name) {
  asked_.emplace(name);
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const json* field_reader::require(std::string_view name) {
  const auto* value = find(name);
  if (!value) {
    refuse(errc::invalid_request, name, fmt::format("'{}' is required", full(name)));
  }
  return value;
}

bool field_reader::boolean(std::string_view name, bool otherwise) {
  const auto* value = find(name);
  if (!value) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    refuse_type(name, "true or false", *value);
    return otherwise;
  }
  return value->get<bool>();
}

double field_reader::real(std::string_view name, double otherwise, const real_range& range) {
  const auto* value = find(name);
  if (!value) {
    return otherwise;
  }
  if (!value->is_number()) {
    refuse_type(name, "a number", *value);
    return otherwise;
  }
  const auto number = value->get<double>();
  if (!range.contains(number) || !range.contains(static_cast<float>(number))) {
    refuse(out_of_range(full(name), range, number));
    return otherwise;
  }
  return number;
}

std::int64_t field_reader::integer(std::string_view name, std::int64_t otherwise,
                                   std::int64_t least, std::int64_t most) {
  const auto* value = find(name);
  if (!value) {
    return otherwise;
  }
  if (!value->is_number_integer()) {
    refuse_type(name, "an integer", *value);
    return otherwise;
  }
  const bool is_huge = value->is_number_unsigned() &&
                       value->get<std::uint64_t>() >
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto number = is_huge ? 0 : value->get<std::int64_t>();
  if (is_huge || number < least || number > most) {
    refuse(errc::invalid_value, name,
           fmt::format("'{}' must be between {} and {}, not {}", full(name), least, most,
                       json_text(*value)));
    return otherwise;
  }
  return number;
}

std::string field_reader::text(std::string_view name, std::string otherwise,
                               std::size_t bytes_max) {
  const auto* value = find(name);
  if (!value) {
    return otherwise;
  }
  if (!value->is_string()) {
    refuse_type(name, "a string", *value);
    return otherwise;
  }
  const auto& string = value->get_ref<const std::string&>();
  if (string.size() > bytes_max) {
    refuse(errc::invalid_value, name,
           fmt::format("'{}' has {} bytes of at most {}", full(name), string.size(), bytes_max));
    return otherwise;
  }
  return string;
}

void field_reader::refuse(errc code, std::string_view name, std::string message) {
  refuse(error{code, std::move(message), full(name)});
}

nlohmann::ordered_json field_reader::in_order(std::string_view source) {
  auto all = nlohmann::ordered_json::parse(without_mark(source), nullptr, false);
  if (all.is_object())
    return all;
  refuse(errc::invalid_request, {}, "the text of the body cannot be read");
  return nlohmann::ordered_json::object();
}

void field_reader::refuse(error e) {
  if (!failure_) {
    failure_ = std::move(e);
  }
}

void field_reader::refuse_type(std::string_view name, std::string_view wanted, const json& got) {
  refuse(errc::invalid_value, name,
         fmt::format("'{}' must be {}, not {}", full(name), wanted, kind_of_json(got)));
}

void field_reader::judge_unknown(const std::string& name, const json& value,
                                 std::span<const unsupported_field> unsupported, object_kind kind) {
  if (value.is_null() || is_ignored(kind, name)) {
    return;
  }
  const unsupported_field* known = nullptr;
  for (const auto& row : unsupported) {
    if (row.name != name) {
      continue;
    }
    known = &row;
    if (!row.no_op.empty() && json::parse(row.no_op) == value) {
      return;
    }
  }
  if (known) {
    refuse(errc::unsupported_parameter, name,
           fmt::format("'{}' is not supported by this server{}", full(name),
                       known->instead.empty() ? std::string()
                                              : fmt::format(": use '{}'", known->instead)));
    return;
  }
  const auto nearest = nearest_name(name, asked_);
  refuse(errc::unsupported_parameter, shown_member(name),
         nearest ? fmt::format("there is no parameter '{}'; did you mean '{}'?",
                               full(shown_member(name)), *nearest)
                 : fmt::format("there is no parameter '{}'", full(shown_member(name))));
}

result<void> field_reader::finish(std::span<const unsupported_field> unsupported,
                                  object_kind kind) {
  for (auto it = object_.begin(); it != object_.end() && !failure_; ++it) {
    if (!asked_.contains(it.key())) {
      judge_unknown(it.key(), it.value(), unsupported, kind);
    }
  }
  if (failure_) {
    return *failure_;
  }
  return {};
}

} // namespace baton::gateway
