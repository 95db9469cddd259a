// Base64 (RFC 4648), as tokenizer.json holds its character map and clients get embeddings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::text {

// Nothing if it is none: a character outside of the alphabet, or a length that no bytes have.
std::optional<std::string> bytes_of_base64(std::string_view text);

// With padding.
std::string base64_of(std::string_view bytes);

} // namespace baton::text
