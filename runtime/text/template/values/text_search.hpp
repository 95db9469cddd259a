// Substring search that user data cannot make slow.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace baton::text::jinja {

// The first position of `needle` at or after `from`. Uses glibc's memmem, which is linear in the
// text; std::string::find starts over at each position.
std::optional<std::size_t> find_bytes(std::string_view text, std::string_view needle,
                                      std::size_t from) noexcept;

} // namespace baton::text::jinja
