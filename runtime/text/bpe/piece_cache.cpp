// A direct-mapped table of short pieces; see piece_cache.hpp.
#include "runtime/text/bpe/piece_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace baton::text {

piece_cache::piece_cache(std::size_t slots)
    : slots_(std::bit_ceil(std::max<std::size_t>(slots, 1))) {}

std::size_t piece_cache::index_of(std::string_view piece) const noexcept {
  std::uint64_t hash = piece.size();
  for (std::size_t at = 0; at < piece.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, piece.data() + at, std::min(sizeof(word), piece.size() - at));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32U;
  }
  return static_cast<std::size_t>(hash) & (slots_.size() - 1);
}

std::span<const token_id> piece_cache::find(std::string_view piece) const noexcept {
  if (piece.size() > piece_bytes_max)
    return {};
  const slot& kept = slots_[index_of(piece)];
  if (kept.ids_count == 0 || std::string_view(kept.piece.data(), kept.piece_bytes) != piece)
    return {};
  return {kept.ids.data(), kept.ids_count};
}

void piece_cache::put(std::string_view piece, std::span<const token_id> ids) noexcept {
  if (piece.size() > piece_bytes_max || ids.empty() || ids.size() > ids_max)
    return;
  slot& kept = slots_[index_of(piece)];
  std::copy(ids.begin(), ids.end(), kept.ids.begin());
  std::copy(piece.begin(), piece.end(), kept.piece.begin());
  kept.ids_count = static_cast<std::uint8_t>(ids.size());
  kept.piece_bytes = static_cast<std::uint8_t>(piece.size());
}

void piece_cache::clear() noexcept {
  for (slot& kept : slots_)
    kept.ids_count = 0;
}

} // namespace baton::text
