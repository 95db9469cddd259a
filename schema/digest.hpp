// Short digests (XXH3, 64 bits) that distinguish texts and requests. They are not cryptographic.
#pragma once

#include "schema/messages.hpp"

#include <cstdint>
#include <string_view>

namespace baton {

std::uint64_t digest_of(std::string_view text) noexcept;
// Digest of `text` appended to a text whose digest is `before`.
std::uint64_t digest_behind(std::uint64_t before, std::string_view text) noexcept;
// Digest of a request's content: without its number, name, deadline, arrival time and resumability.
std::uint64_t digest_of(generate request, bool add_generation_prompt);

} // namespace baton
