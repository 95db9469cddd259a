// Base64 (RFC 4648), used for the character map in tokenizer.json and for embeddings in answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::text {

// Returns nullopt if a character is outside the alphabet or the length is impossible.
std::optional<std::string> bytes_of_base64(std::string_view text);

// The result is padded.
std::string base64_of(std::string_view bytes);

} // namespace baton::text
