// How the model families write what they think before they answer, as data. A family is recognised
// by its chat template. Used by the head (where the answer begins), the gateway (parsing answers)
// and the grammar of constraints. Pure.
#pragma once

#include "schema/constraint.hpp"

#include <array>
#include <span>
#include <string_view>

namespace baton::text {

struct text_segment;

// An answer is open, reasoning, close, and then what the user asked for. Either mark may be in the
// prompt already: a template that begins the reasoning writes `open`, one that suppresses it both.
// With channels the answer is a list of messages with headers, and the header says which of them
// are reasoning. Then `next` is between the reasoning and a message, and `answer` the header of a
// message to the user.
struct reasoning_row {
  reasoning_format format;
  std::string_view template_mark; // in every template of these families, and in no other
  std::string_view open, close;
  std::string_view next = {}, answer = {};
  bool has_channels = false;
  // The control tokens among these texts. They are part of an answer's text.
  std::array<std::string_view, 4> controls = {};
};

// Requires: format is not none.
const reasoning_row& row_of(reasoning_format format) noexcept;
// none: the template does not know reasoning.
reasoning_format reasoning_format_of(std::string_view chat_template) noexcept;

// The format of the answer to a rendered chat, and whether it begins inside the reasoning. Only the
// template's own text counts: a user may write the marks.
struct reasoning_start {
  reasoning_format format = reasoning_format::none; // none: the answer has no reasoning
  bool is_inside = false;
};
reasoning_start reasoning_start_of(reasoning_format format,
                                   std::span<const text_segment> rendered) noexcept;

} // namespace baton::text
