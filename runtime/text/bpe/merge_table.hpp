// The merges of byte-pair encoding and the loop that applies them (Sennrich et al. 2016,
// arXiv:1508.07909). Used only by the tokenizer. Immutable once built.
#pragma once

#include "runtime/text/bpe/large_pages.hpp"
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

  // Only the first merge of a pair counts. Several merges may have the same rank.
  void add(token_id left, token_id right, merge what);

  // Merges the pair of lowest rank, the leftmost of equals, until no pair has a merge. In place.
  // O(n log n) in the number of symbols. If every token's rank is above those of its parts, O(n)
  // plus sorting of nearly sorted positions. Returns the number of pairs looked up.
  std::uint64_t apply(large_vector<token_id>& symbols) const;

private:
  struct slot {
    std::uint64_t pair = empty; // left id in the upper half
    merge what{};
  };
  // Not a pair of ids: ids are never negative.
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  const merge* find(token_id left, token_id right) const noexcept;
  std::uint64_t apply_to_few(large_vector<token_id>& symbols) const;
  template <class Queue>
  std::uint64_t apply_to_many(large_vector<token_id>& symbols, Queue queue) const;

  std::vector<slot> slots_; // open addressing, a power of two, at most half full
  unsigned shift_;          // selects the upper bits of the hash
  std::size_t ranks_ = 0;   // highest rank + 1
};

} // namespace baton::text
