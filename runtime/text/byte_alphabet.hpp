// GPT-2's alphabet: every byte has one printable character, so that vocabularies of byte sequences
// can be written as text (Radford et al. 2019, "Language Models are Unsupervised Multitask
// Learners", section 2.2; the map is that of its published encoder). Used where a vocabulary is
// read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::text {

// The bytes that a token's text stands for; nothing if it holds a character outside the alphabet or
// is not UTF-8.
std::optional<std::string> bytes_of_alphabet_text(std::string_view text);

// The character (as UTF-8) that stands for a byte.
std::string alphabet_text_of(unsigned char byte);

} // namespace baton::text
