// Holds back at most one incomplete character; see detokenizer.hpp.
#include "runtime/text/stream/detokenizer.hpp"

#include <algorithm>
#include <string_view>

namespace baton::text {

std::size_t detokenizer::push(token_id id, std::string& text) {
  if (skip_special_ && tokenizer_->is_control(id) &&
      std::find(shown_.begin(), shown_.end(), id) == shown_.end())
    return 0;
  const std::string_view bytes = tokenizer_->next_piece(id, is_first_);
  pending_ += bytes;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const std::size_t valid = utf8_valid_prefix(rest);
    text += rest.substr(0, valid);
    at += valid;
    if (valid == rest.size())
      break;
    const utf8_sequence next = utf8_at(rest, valid);
    if (next.is == utf8_sequence::state::incomplete)
      break;
    text += replacement_character;
    at += next.length;
  }
  pending_.erase(0, at);
  return bytes.size();
}

void detokenizer::finish(std::string& text) {
  if (!pending_.empty())
    text += replacement_character;
  pending_.clear();
  is_first_ = begins_text_;
}

} // namespace baton::text
