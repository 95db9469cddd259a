// A validator of JSON schemas, written for the tests alone and straight from the specification: it
// checks values, knows nothing of grammars, and takes `oneOf` for what it is not (anyOf).
#pragma once

#include <string>
#include <string_view>

namespace baton::test {

// Whether `text` is JSON that the schema holds for. Requires: the schema is one that the grammar
// supports.
bool is_valid(std::string_view schema, std::string_view text);

} // namespace baton::test
