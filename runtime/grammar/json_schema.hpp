// JSON schemas (draft 2020-12, and draft 7's words for the same) to grammars. Every text of the
// grammar is JSON that the schema holds for; the reverse is not promised: members come in the order
// of `properties`, then those of `additionalProperties`, which must be asked for where there are
// `properties`; tuples end with their `prefixItems` likewise. `oneOf` is read as `anyOf`. A keyword
// that could not be kept is an error that names it.
//
//   all      $ref (within the document), $defs, allOf, anyOf, oneOf, enum, const, type
//   object   properties, required, additionalProperties, propertyNames, min- and maxProperties
//   array    items, prefixItems, additionalItems, minItems, maxItems
//   string   minLength, maxLength, or pattern, or format (date, time, date-time, duration, uuid,
//            email, hostname, ipv4, ipv6, uri); beside one of the others, enum or const a format is
//            an annotation: it holds where it can, and any is taken
//   number   minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf 1
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <string_view>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter.
result<expression> read_json_schema(grammar_builder& to, std::string_view schema);

} // namespace baton::grammar
