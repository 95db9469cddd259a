// strftime_now: the date in a prompt, in English for any locale of the machine.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <chrono>

namespace baton::text::jinja {

// %a %A %b %B %d %e %-d %H %-H %I %-I %j %m %-m %M %-M %p %S %y %Y %F %T %%. Errors: any other.
maybe format_time(interpreter& run, const marked_text& format, std::chrono::sys_seconds time);

} // namespace baton::text::jinja
