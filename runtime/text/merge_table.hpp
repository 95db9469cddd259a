// The merges of byte-pair encoding and the loop that applies them (Sennrich et al. 2016,
// arXiv:1508.07909). Built and called by the tokenizer only. Immutable once built.
#pragma once

#include "runtime/text/large_pages.hpp"
#include "schema/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::text {

struct merge {
  std::uint32_t rank; // 0 is applied first
  token_id product;
};

class merge_table {
public:
  explicit merge_table(std::size_t merges);

  // The first merge of a pair counts; later ones are ignored. Several merges may have one rank.
  void add(token_id left, token_id right, merge what);

  // Merges the pair of lowest rank, the leftmost of equals, until no pair has a merge. In place.
  // O(n log n) in the number of symbols, whatever they are, and O(n) if a token's rank is above
  // those of its parts, but for the sorting of places that are nearly sorted. Returns the number of
  // pairs looked up.
  std::uint64_t apply(large_vector<token_id>& symbols) const;

private:
  struct slot {
    std::uint64_t pair = empty; // left in the upper half
    merge what{};
  };
  // No pair of ids: ids are never negative.
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  const merge* find(token_id left, token_id right) const noexcept;
  std::uint64_t apply_to_few(large_vector<token_id>& symbols) const;
  template <class Queue>
  std::uint64_t apply_to_many(large_vector<token_id>& symbols, Queue queue) const;

  std::vector<slot> slots_; // open addressing, a power of two, at most half full
  unsigned shift_;          // takes the upper bits of the hash
  std::size_t ranks_ = 0;   // above the highest
};

} // namespace baton::text
