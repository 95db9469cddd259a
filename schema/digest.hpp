// Short digests (XXH3, 64 bits) that tell texts and requests apart. They keep no secret.
#pragma once

#include "schema/messages.hpp"

#include <cstdint>
#include <string_view>

namespace baton {

std::uint64_t digest_of(std::string_view text) noexcept;
// Of `text` behind what has the digest `before`.
std::uint64_t digest_behind(std::uint64_t before, std::string_view text) noexcept;
// Of what a request asks for: without its number, its name, its deadline, the time when it came and
// whether its client would come back.
std::uint64_t digest_of(generate request, bool add_generation_prompt);

} // namespace baton
