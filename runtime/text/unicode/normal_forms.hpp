// Unicode normalization (UAX #15) and lower case, by the tables of utf8proc. Used by the text steps
// of a tokenizer.
#pragma once

#include <string>
#include <string_view>

namespace baton::text {

enum class normal_form { nfc, nfd, nfkc, nfkd };

// `text` in that form. Invalid UTF-8 bytes stay, and nothing composes across them. Linear in the
// text except for the sorting of runs of marks; at most 18 code points per character.
std::string normalized(std::string_view text, normal_form form);

// Maps each character by itself, by Unicode's context-free mappings.
std::string lower_case(std::string_view text);

} // namespace baton::text
