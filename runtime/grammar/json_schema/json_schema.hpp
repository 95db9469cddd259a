// Converts JSON schemas (draft 2020-12, and draft 7's equivalent keywords) to grammars. Every text
// of the grammar is JSON that satisfies the schema; the reverse is not guaranteed. Members come in
// the order of `properties`, then additional ones. Beside `properties`, additional members need an
// explicit `additionalProperties`; likewise tuples end after their `prefixItems`. `oneOf` is read
// as `anyOf`. An unsupported keyword is an error that names it.
//
//   `all`      $ref (within the document), $defs, allOf, anyOf, oneOf, enum, const, type.
//   `object`   properties, required, additionalProperties, propertyNames, min- and maxProperties.
//   `array`    items, prefixItems, additionalItems, minItems, maxItems.
//   `string`   minLength, maxLength, or pattern, or format (date, time, date-time, duration, uuid,
//              email, hostname, ipv4, ipv6, uri). Beside a length, pattern, enum or const, a format
//              is an annotation: any is accepted, and applied only if possible.
//   `number`   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf 1.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter.
result<expression> read_json_schema(grammar_builder& to, std::string_view schema);

// The members of an object, for notations other than JSON's.
struct schema_members {
  struct member {
    std::string name;
    expression value;
    bool is_required = false;
  };
  std::vector<member> named;          // in the order of `properties`
  std::optional<expression> others{}; // the value of any member, if none is named
};

// Texts as values of such members: `open`, the text without quotes and escapes, `close`. A text
// never contains `end`. The values in lists and objects are JSON.
struct bare_text {
  expression open, close;
  std::string_view end;
};

// `texts`: null if texts are JSON, too. A text of a member that may also be a number, a list or an
// object begins like none of these, so that a reader distinguishes them (value_kinds.hpp). Errors:
// as above; unsupported_parameter for a combination of objects, or counts of members.
result<schema_members> read_schema_members(grammar_builder& to, std::string_view schema,
                                           const bare_text* texts);

} // namespace baton::grammar
