// A piece of prompt text and whether special tokens may be matched in it. It connects the chat
// template, which knows where each character came from, with the tokenizer.
#pragma once

#include <string>

namespace baton::text {

// Only a segment with `special_allowed` may yield special tokens, so user text never does. A
// segment border is not a token border: ordinary text is tokenized across it.
struct text_segment {
  std::string text;
  bool special_allowed;
};

} // namespace baton::text
