// Which code points the pattern engine takes for letters (\p{L}), as a table: asked of the engine
// itself, so that both have the same edition of Unicode. Used by pre_tokenizer alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::text {

class letters {
public:
  // Made when it is first wanted, in a few milliseconds; then any thread may look into it.
  static const letters& get();

  // Above what the table holds there are no letters in any edition, but who knows the next one?
  static constexpr std::uint32_t code_points = 0x40000;
  // Requires: below `code_points`.
  bool holds(std::uint32_t code_point) const noexcept {
    return (bits_[code_point / 64] >> (code_point % 64) & 1U) != 0;
  }

private:
  letters();

  std::vector<std::uint64_t> bits_;
};

// Where the word ends that begins at `begin`: a space at most and letters. `begin` if there is
// none, or if beyond ASCII something follows that is no letter but may belong to the word, a mark.
// Requires: `text` is UTF-8, begin < text.size().
std::size_t end_of_word(const letters& known, std::string_view text, std::size_t begin) noexcept;

} // namespace baton::text
