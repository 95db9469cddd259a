// Reads a client's JSON field by field into typed values. Keeps the first error, with the field's
// name; later reads return defaults. Unknown fields are refused by name, unless they cannot change
// an answer. No exception leaves it.
#pragma once

#include "gateway/request/ignored_fields.hpp"
#include "gateway/request/request_check.hpp"
#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace baton::gateway {

using json = nlohmann::json;

// Strict JSON (RFC 8259, valid UTF-8, numbers within a double) of at most `depth_max` levels, with
// or without a byte order mark.
// Errors: invalid_request.
result<json> parse_json(std::string_view text, std::size_t depth_max);
// The body of a request: an object. Errors: invalid_request.
result<json> parse_body(std::string_view body, std::size_t depth_max);

// A parameter of a known API that this server does not support. It is refused unless its value is
// null or `no_op`, which mean the same as leaving it out. `no_op` is JSON; empty: there is none.
// `instead`: the replacement, if there is one.
struct unsupported_field {
  std::string_view name;
  std::string_view no_op;
  std::string_view instead{};
};

class field_reader {
public:
  // Requires: `object` is an object and outlives the reader. `path` precedes names in errors
  // ("messages[2].").
  explicit field_reader(const json& object, std::string path = {});

  // Null if absent or null. The name counts as known.
  const json* find(std::string_view name);
  const json* require(std::string_view name);

  bool boolean(std::string_view name, bool otherwise);
  double real(std::string_view name, double otherwise, const real_range& range);
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t least,
                       std::int64_t most);
  std::string text(std::string_view name, std::string otherwise, std::size_t bytes_max);

  // Reads the object in member `name`, if present, by `read(field_reader&)`. Its unknown fields are
  // judged as in finish().
  template <class Read>
  void object(std::string_view name, Read read, std::span<const unsupported_field> unsupported = {},
              object_kind kind = object_kind::parameters) {
    const auto* value = find(name);
    if (!value)
      return;
    if (!value->is_object())
      return refuse_type(name, "an object", *value);
    field_reader inner(*value, full(name) + ".");
    read(inner);
    if (auto ok = inner.finish(unsupported, kind); !ok)
      refuse(ok.error());
  }

  void refuse(errc code, std::string_view name, std::string message);
  void refuse(error e);
  // The object again, from the text that it was parsed from, with its members in the client's
  // order. Refused, and empty, if the text cannot be read.
  nlohmann::ordered_json in_order(std::string_view source);
  // "'prompt' must be a string, not an object"
  void refuse_type(std::string_view name, std::string_view wanted, const json& got);

  // All names read so far: those that the object may have.
  const std::set<std::string, std::less<>>& asked() const noexcept { return asked_; }
  bool has_failed() const noexcept { return failure_.has_value(); }
  // Judges the unknown fields. Nulls pass, and so do ignored fields of this kind of object
  // (ignored_fields.hpp). Errors: the first mistake.
  result<void> finish(std::span<const unsupported_field> unsupported = {},
                      object_kind kind = object_kind::parameters);

private:
  std::string full(std::string_view name) const { return path_ + std::string(name); }
  void judge_unknown(const std::string& name, const json& value,
                     std::span<const unsupported_field> unsupported, object_kind kind);

  const json& object_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
  std::optional<error> failure_;
};

// "a string", "an object" ...
std::string_view kind_of_json(const json& value) noexcept;

} // namespace baton::gateway
