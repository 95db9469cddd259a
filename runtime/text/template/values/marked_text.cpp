// Marked text: appending keeps the list of untrusted ranges sorted and merged.
#include "runtime/text/template/values/marked_text.hpp"

#include <algorithm>

namespace baton::text {

namespace {

// The first range that ends after `position`.
auto range_after(const std::vector<byte_range>& ranges, std::size_t position) {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [&](const byte_range& r) { return r.end <= position; });
}

} // namespace

marked_text marked_text::trusted(std::string text) {
  marked_text result;
  result.text_ = std::move(text);
  return result;
}

marked_text marked_text::untrusted(std::string text) {
  marked_text result;
  result.text_ = std::move(text);
  result.mark(0, result.text_.size());
  return result;
}

bool marked_text::is_untrusted(std::size_t begin, std::size_t end) const noexcept {
  const auto found = range_after(untrusted_, begin);
  return found != untrusted_.end() && found->begin < end;
}

void marked_text::append(const marked_text& other, std::size_t begin, std::size_t end) {
  if (&other == this) { // growing text_ would move the bytes being read
    append(marked_text(other), begin, end);
    return;
  }
  const std::size_t shift = text_.size();
  text_.append(other.text_, begin, end - begin);
  for (auto r = range_after(other.untrusted_, begin); r != other.untrusted_.end() && r->begin < end;
       ++r) {
    mark(std::max(r->begin, begin) - begin + shift, std::min(r->end, end) - begin + shift);
  }
}

void marked_text::append_untrusted(std::string_view text) {
  const std::size_t begin = text_.size();
  text_.append(text);
  mark(begin, text_.size());
}

void marked_text::append_as(std::string_view text, const marked_text& other, std::size_t begin,
                            std::size_t end) {
  if (other.is_untrusted(begin, end)) {
    append_untrusted(text);
  } else {
    append_trusted(text);
  }
}

marked_text marked_text::slice(std::size_t begin, std::size_t end) const {
  marked_text result;
  result.append(*this, begin, end);
  return result;
}

void marked_text::mark(std::size_t begin, std::size_t end) {
  if (begin == end) {
    return;
  }
  if (!untrusted_.empty() && untrusted_.back().end == begin) {
    untrusted_.back().end = end;
  } else {
    untrusted_.push_back({begin, end});
  }
}

} // namespace baton::text
