// Ids of recently encoded pieces: a direct-mapped table of fixed size, so no text can make it grow.
// Owned by one thread (through an encode_scratch); never shared.
#pragma once

#include "schema/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace baton::text {

class piece_cache {
public:
  // 128 bytes a slot, the piece first, so a short piece is found within one cache line. A few
  // thousand slots hold the words of English prose. With many alphabets, these 2 MiB encode half as
  // fast again as a quarter of them, because words do not evict each other.
  static constexpr std::size_t slots_default = 16384;
  // Fits words of alphabets with three bytes a letter, and words encoded letter by letter. Longer
  // words are rare and not cached.
  static constexpr std::size_t piece_bytes_max = 46;
  static constexpr std::size_t ids_max = 20;

  explicit piece_cache(std::size_t slots); // rounded up to a power of two

  // Empty if the piece is not cached. Valid until the next put() or clear().
  std::span<const token_id> find(std::string_view piece) const noexcept;
  // Replaces the content of the piece's slot. Pieces or ids beyond the limits, and empty ids, are
  // not cached.
  void put(std::string_view piece, std::span<const token_id> ids) noexcept;
  void clear() noexcept;

private:
  struct slot {
    std::uint8_t ids_count;
    std::uint8_t piece_bytes;
    std::array<char, piece_bytes_max> piece;
    std::array<token_id, ids_max> ids;
  };
  static_assert(sizeof(slot) == 128);

  std::size_t index_of(std::string_view piece) const noexcept;

  std::vector<slot> slots_;
};

} // namespace baton::text
