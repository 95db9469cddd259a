// Python's two ways to fill placeholders: "%s" % x and "{}".format(x). Called by the % operator,
// the filter `format` and the method `format`.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <vector>

namespace baton::text::jinja {

// %s %r %d %i %f %e %g %x %X %o %c %% with flags, width and precision; %(name)s reads from a map
// that is the only item. Errors: another conversion, too few or too many items. If `is_lenient`,
// unused items are allowed.
maybe format_printf(interpreter& run, const marked_text& format, const std::vector<value>& items,
                    bool is_lenient);
// {} {0} {name} {name!r}; a format after a colon is refused.
maybe format_braces(interpreter& run, const marked_text& format, const arguments& all);

} // namespace baton::text::jinja
