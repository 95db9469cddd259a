// Reads the fields of one message of config.pbtxt, with checks of type and range. The first error
// is kept.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

class pbtxt_fields {
public:
  using json = nlohmann::ordered_json;

  // `object` is a result of parse_pbtxt and must outlive this. `path` is for messages.
  pbtxt_fields(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // The last value; null if there is none.
  const json* find(std::string_view name) const;
  std::vector<const json*> all(std::string_view name) const;
  std::string text(std::string_view name);
  bool flag(std::string_view name);
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t most);
  // Each within [least, most].
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t least, std::int64_t most);
  // A sub-message; empty if there is none.
  pbtxt_fields message(std::string_view name);
  std::vector<pbtxt_fields> messages(std::string_view name);

  const json& object() const noexcept { return object_; }
  void refuse(std::string_view name, std::string_view needed);
  void fail_with(error e);
  const std::optional<error>& wrong() const noexcept { return wrong_; }

private:
  const json& object_;
  std::string path_;
  std::optional<error> wrong_;
};

} // namespace baton::cluster
