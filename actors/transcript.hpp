// The text of one choice so far, so that it can be repeated from after any of its tokens.
#pragma once

#include "schema/messages.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::actors {

// How a choice has ended.
struct ending {
  baton::finish finish = baton::finish::none;
  std::uint32_t output_tokens = 0;
  std::string stop_text;
  std::optional<error> failure;
  std::vector<float> embedding{}; // of a prompt, if requested
};

class transcript {
public:
  // Adds tokens; `ends`: the end of each one in `text`. `details`: one per token, or none.
  void add(std::string_view text, std::span<const std::size_t> ends, std::span<const token_id> ids,
           std::vector<token_detail> details);
  std::uint32_t tokens() const noexcept { return static_cast<std::uint32_t>(ids_.size()); }

  // Fills index, count, text, ids and details of a chunk with at most `count` tokens after `from`.
  // Requires: from <= tokens().
  void cut(std::uint32_t from, std::uint32_t count, chunk& out) const;
  // Characters of the text before that token.
  std::uint32_t characters_before(std::uint32_t token) const noexcept;
  std::size_t size_bytes() const noexcept;

private:
  std::size_t end_of(std::uint32_t tokens) const noexcept {
    return tokens == 0 ? 0 : ends_[tokens - 1];
  }

  std::string text_;
  std::vector<std::size_t> ends_; // in text_, of each token
  std::vector<token_id> ids_;
  std::vector<token_detail> details_; // none, or one per token
};

} // namespace baton::actors
