// Ids to UTF-8 text, one token at a time: holds back the bytes of a character until it is whole.
// Its state is a function of the ids pushed so far, so it can be rebuilt from a sequence log. One
// per stream; used by stream_decoder.
#pragma once

#include "runtime/text/tokenizer.hpp"
#include "runtime/text/utf8.hpp"

#include <cstddef>
#include <string>

namespace baton::text {

class detokenizer {
public:
  // Requires: `words` outlives this object. skip_special: control tokens have no text.
  // begins_text: the ids are a text of their own, not the rest of one: the space that SentencePiece
  // models put before a text is dropped.
  detokenizer(const tokenizer& words, bool skip_special, bool begins_text = true)
      : words_(&words), skip_special_(skip_special), begins_text_(begins_text),
        is_first_(begins_text) {}

  // Appends to `text` what is decided now: whole characters, and U+FFFD for each maximal subpart
  // that no further byte can make valid (as Python's errors="replace"). Returns the bytes that the
  // token added to the text.
  std::size_t push(token_id id, std::string& text);
  // Appends U+FFFD for a character that never became whole. A push may follow: a new text begins.
  void finish(std::string& text);

  // Bytes held back: a suffix of all bytes pushed, never more than 3.
  std::size_t pending_bytes() const noexcept { return pending_.size(); }

private:
  const tokenizer* words_;
  bool skip_special_;
  bool begins_text_;
  bool is_first_; // no token had text so far
  std::string pending_;
};

} // namespace baton::text
