// GPT-2's byte alphabet: every byte has one printable character, so vocabularies of bytes are text
// (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2). The
// map is that of the published encoder. Used when a vocabulary is read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::text {

// The bytes that a token's text represents; nullopt if a character is outside the alphabet or the
// text is not UTF-8.
std::optional<std::string> bytes_of_alphabet_text(std::string_view text);

// The character, as UTF-8, that represents a byte.
std::string alphabet_text_of(unsigned char byte);

} // namespace baton::text
