// Converts ids to UTF-8 text, one token at a time, and holds back incomplete characters. The state
// depends only on the ids pushed so far, so it can be rebuilt from a sequence log. One per stream;
// used by stream_decoder.
#pragma once

#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace baton::text {

class detokenizer {
public:
  // Requires: `tokenizer` outlives this object. `skip_special`: control tokens have no text, except
  // those of `shown`.
  // `begins_text`: the ids start a text rather than continue one, so the space that SentencePiece
  // models put before a text is dropped.
  detokenizer(const tokenizer& tokenizer, bool skip_special, bool begins_text = true,
              std::vector<token_id> shown = {})
      : tokenizer_(&tokenizer), skip_special_(skip_special), begins_text_(begins_text),
        is_first_(begins_text), shown_(std::move(shown)) {}

  // Appends the decided text to `text`: complete characters, and U+FFFD for each maximal subpart
  // that no further byte can make valid (as Python's errors="replace"). Returns the token's size in
  // bytes.
  std::size_t push(token_id id, std::string& text);
  // Appends U+FFFD for an incomplete character. A later push starts a new text.
  void finish(std::string& text);

  // Bytes held back: a suffix of all pushed bytes, at most 3.
  std::size_t pending_bytes() const noexcept { return pending_.size(); }

private:
  const tokenizer* tokenizer_;
  bool skip_special_;
  bool begins_text_;
  bool is_first_; // no token has had text yet
  std::vector<token_id> shown_;
  std::string pending_;
};

} // namespace baton::text
