// Checks a regular expression that another program will match, such as one of Python or Java.
#pragma once

#include "schema/result.hpp"

#include <string_view>

namespace baton::text {

// Errors: invalid_value (with the position). The dialect is Perl's, a superset of Java's and of
// Python's in nearly all patterns.
result<void> check_pattern(std::string_view pattern);

} // namespace baton::text
