// A piece of prompt text and whether special tokens may be matched in it: the seam between the
// chat template, which knows where each character came from, and the tokenizer.
#pragma once

#include <string>

namespace baton::text {

// Only a segment with `special_allowed` may yield special tokens, so user text never does. The
// border of two segments is no token border: ordinary text is tokenized across it.
struct text_segment {
  std::string text;
  bool special_allowed;
};

} // namespace baton::text
