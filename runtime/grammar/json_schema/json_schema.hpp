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

#include <string_view>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter.
result<expression> read_json_schema(grammar_builder& to, std::string_view schema);

} // namespace baton::grammar
