// A validator of JSON schemas for the tests alone, from the specification. It is independent of the
// grammars, and treats `oneOf` as anyOf.
#pragma once

#include <string>
#include <string_view>

namespace baton::test {

// Whether `text` is JSON that is valid under the schema. Requires: the grammar supports the schema.
bool is_valid(std::string_view schema, std::string_view text);

} // namespace baton::test
