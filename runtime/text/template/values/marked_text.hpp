// Text that records which of its bytes came from user data. Every string inside the template engine
// is one, so marks survive concatenation, slicing and filters up to the tokenizer. A mark is never
// dropped: bytes are always copied with their mark.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

// Half-open, in bytes.
struct byte_range {
  std::size_t begin;
  std::size_t end;
};

class marked_text {
public:
  marked_text() = default;
  static marked_text trusted(std::string text);
  static marked_text untrusted(std::string text);

  const std::string& text() const noexcept { return text_; }
  std::size_t size() const noexcept { return text_.size(); }
  bool empty() const noexcept { return text_.empty(); }
  // Sorted and disjoint; no two touch, none is empty.
  const std::vector<byte_range>& untrusted_ranges() const noexcept { return untrusted_; }
  // True if any byte of [begin, end) is from user data.
  bool is_untrusted(std::size_t begin, std::size_t end) const noexcept;

  void append(const marked_text& other) { append(other, 0, other.size()); }
  // Appends other's bytes [begin, end), which must lie inside it.
  void append(const marked_text& other, std::size_t begin, std::size_t end);
  void append_trusted(std::string_view text) { text_.append(text); }
  void append_untrusted(std::string_view text);
  // Appends `text` with the mark of other's bytes [begin, end) (untrusted if any is). For filters
  // that rewrite a character, such as upper and tojson.
  void append_as(std::string_view text, const marked_text& other, std::size_t begin,
                 std::size_t end);
  marked_text slice(std::size_t begin, std::size_t end) const;

private:
  void mark(std::size_t begin, std::size_t end);

  std::string text_;
  std::vector<byte_range> untrusted_;
};

} // namespace baton::text
