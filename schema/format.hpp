// fmt, whose own library holds the compiled formatter of all types. fmt's headers show its body as
// well. Without this declaration each unit compiles that body again, for 2 to 3 s with -O2.
#pragma once

#include <fmt/core.h>

FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to(buffer<char>&, string_view, format_args, locale_ref);
} // namespace detail
FMT_END_NAMESPACE
