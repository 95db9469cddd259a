// Substring search that user data cannot make slow.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace baton::text::jinja {

// The first place of `needle` at or behind `from`. Linear in the text: glibc's memmem, where
// std::string::find compares at each place anew.
std::optional<std::size_t> find_bytes(std::string_view text, std::string_view needle,
                                      std::size_t from) noexcept;

} // namespace baton::text::jinja
