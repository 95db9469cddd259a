// Reads fields of one API with the reader of another API that has them under other names. Pure.
#pragma once

#include "gateway/base/json_text.hpp"
#include "gateway/request/json_reader.hpp"

#include <span>
#include <string>
#include <string_view>

namespace baton::gateway {

// A part of a field's path in the other API, and its name in this one.
struct path_rename {
  std::string_view theirs;
  std::string_view ours;
};

// The error in this API's names: in message and param, all occurrences, one row after the other.
error with_renamed_paths(std::span<const path_rename> renames, error e);

// Calls `read(field_reader&, source)` for `translated`, an object with the fields in the form of
// the other API; `source` is its text. `reword(error)` turns errors into this API's names.
template <class Read>
void read_translated(field_reader& fields, const nlohmann::ordered_json& translated,
                     error (*reword)(error), Read read) {
  const auto source = json_text(translated);
  const auto parsed = json::parse(source, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    return fields.refuse(errc::invalid_request, {}, "the text of the body cannot be read");
  }
  field_reader inner(parsed);
  read(inner, source);
  if (auto ok = inner.finish(); !ok) {
    fields.refuse(reword(ok.error()));
  }
}

} // namespace baton::gateway
