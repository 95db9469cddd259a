#include "actors/transcript.hpp"

#include "runtime/text/unicode/utf8.hpp"
#include "schema/ensure.hpp"

#include <algorithm>
#include <iterator>

namespace baton::actors {

void transcript::add(std::string_view text, std::span<const std::size_t> ends,
                     std::span<const token_id> ids, std::vector<token_detail> details) {
  ENSURE(ends.size() == ids.size() && (details.empty() || details.size() == ids.size()),
         "{} ends and {} details of {} tokens", ends.size(), details.size(), ids.size());
  for (const std::size_t end : ends)
    ends_.push_back(text_.size() + end);
  text_ += text;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  details_.insert(details_.end(), std::make_move_iterator(details.begin()),
                  std::make_move_iterator(details.end()));
}

void transcript::cut(std::uint32_t from, std::uint32_t count, chunk& out) const {
  ENSURE(from <= tokens(), "cut behind token {} of {}", from, tokens());
  out.count = std::min(count, tokens() - from);
  out.index = from + out.count;
  out.text = text_.substr(end_of(from), end_of(out.index) - end_of(from));
  out.ids.assign(ids_.begin() + from, ids_.begin() + out.index);
  if (details_.empty())
    return;
  out.details.assign(details_.begin() + from, details_.begin() + out.index);
  for (std::uint32_t i = 0; i < out.count; ++i)
    out.details[i].text_end = static_cast<std::uint32_t>(ends_[from + i] - end_of(from));
}

std::uint32_t transcript::characters_before(std::uint32_t token) const noexcept {
  const auto before = std::string_view(text_).substr(0, end_of(token));
  return static_cast<std::uint32_t>(text::utf8_characters(before));
}

std::size_t transcript::size_bytes() const noexcept {
  std::size_t bytes = text_.size() + ends_.size() * sizeof(std::size_t) +
                      ids_.size() * sizeof(token_id) + details_.size() * sizeof(token_detail);
  for (const token_detail& d : details_)
    bytes += d.chosen.text.size() + d.top.size() * sizeof(logprob_entry);
  return bytes;
}

} // namespace baton::actors
