// The kinds of JSON values that a schema allows, for tool calls that write texts bare. There `5` is
// a number or a text, and the schema says which. Pure.
#pragma once

#include "runtime/grammar/json_schema/json_value.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::grammar {

// Bit 1 << kind for each kind.
using value_kinds = std::uint8_t;
inline constexpr value_kinds all_kinds = 0x3F;
constexpr value_kinds bit_of(json_value::kind kind) noexcept {
  return static_cast<value_kinds>(1U << static_cast<unsigned>(kind));
}

// A superset of what `schema` accepts; all kinds if it does not say. `$ref`s are those of `root`.
value_kinds kinds_of(const json_value& schema, const json_value& root);

// The schema of an object's member. Null: the schema does not say.
const json_value* member_schema(const json_value& schema, std::string_view name);

// The JSON of a value that is written bare: a number, a list, ... if it reads like one and `kinds`
// has it; otherwise a text. Python's True, False and None count as JSON's.
std::string json_of_written(std::string_view written, value_kinds kinds);

} // namespace baton::grammar
