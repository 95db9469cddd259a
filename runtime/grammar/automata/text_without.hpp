// Texts that contain none of some marks, for what stands before a mark. Pure.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <span>
#include <string_view>

namespace baton::grammar {

// Any text of UTF-8 in which none of `marks` occurs. Its first character is none of `never_first`.
// Requires: at least one mark; none is empty.
expression text_without(grammar_builder& to, std::span<const std::string_view> marks,
                        const character_set& never_first = {});
expression text_without(grammar_builder& to, std::string_view mark,
                        const character_set& never_first = {});

} // namespace baton::grammar
