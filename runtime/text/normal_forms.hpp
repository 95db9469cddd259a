// Unicode's normal forms of text (UAX #15), and lower case, by the tables of utf8proc. Used by the
// text steps of a tokenizer.
#pragma once

#include <string>
#include <string_view>

namespace baton::text {

enum class normal_form { nfc, nfd, nfkc, nfkd };

// `text` in that form. Bytes that are no UTF-8 stay, and nothing composes across them. Linear in
// the text but for the sorting of runs of marks, whatever they are; at most 18 code points for one.
std::string normalized(std::string_view text, normal_form form);

// Each character's own lower case, as Unicode's mappings without context have it.
std::string lower_case(std::string_view text);

} // namespace baton::text
