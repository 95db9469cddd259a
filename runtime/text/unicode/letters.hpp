// A table of the code points that the pattern engine regards as letters (\p{L}). It is built by
// querying the engine, so both use the same edition of Unicode. Used only by pre_tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::text {

class letters {
public:
  // Built on first use, in a few milliseconds; then safe for concurrent reads.
  static const letters& get();

  // No edition of Unicode has letters from here on; a future one may.
  static constexpr std::uint32_t code_points = 0x40000;
  // Requires: below `code_points`.
  bool holds(std::uint32_t code_point) const noexcept {
    return (bits_[code_point / 64] >> (code_point % 64) & 1U) != 0;
  }

private:
  letters();

  std::vector<std::uint64_t> bits_;
};

// End of the word at `begin`: an optional space, then letters. Returns `begin` if there is none, or
// if the next character is non-ASCII, no letter, and may belong to the word (a mark). Requires:
// `text` is UTF-8, begin < text.size().
std::size_t end_of_word(const letters& known, std::string_view text, std::size_t begin) noexcept;

} // namespace baton::text
