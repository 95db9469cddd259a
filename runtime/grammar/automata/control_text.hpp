// Control tokens in a grammar. Their texts begin with a byte that no UTF-8 has, so a free text of a
// grammar never allows them: only the texts that name them do. Pure.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <span>
#include <string>
#include <string_view>

namespace baton::grammar {

inline constexpr char control_byte = '\xFF';

// The text of a control token, and what a client sees of any token's text.
std::string control_text(std::string_view piece);
std::string_view shown_text(std::string_view text) noexcept;

// `text`, where each of `controls` may be its control token or spelled out. Empty ones are none.
expression text_with_controls(grammar_builder& to, std::string_view text,
                              std::span<const std::string_view> controls);

} // namespace baton::grammar
