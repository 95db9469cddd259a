// Two loops with the same result: a scan for short pieces (nearly all), a queue for long pieces.
#include "runtime/text/bpe/merge_table.hpp"

#include "runtime/text/bpe/merge_queue.hpp"
#include "schema/ensure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace baton::text {

namespace {

// Up to this size, scanning all pairs for the best beats a heap; words are shorter.
constexpr std::size_t few_symbols_max = 32;
// Up to this size, a heap beats buckets, which must be allocated for all ranks.
constexpr std::size_t heap_symbols_max = 4096;
constexpr std::uint32_t no_merge = std::numeric_limits<std::uint32_t>::max();

std::uint64_t pair_of(token_id left, token_id right) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
         static_cast<std::uint32_t>(right);
}

// Fibonacci hashing: the upper bits of the product depend on all bits of the pair.
std::size_t index_of(std::uint64_t pair, unsigned shift) noexcept {
  return static_cast<std::size_t>((pair ^ (pair >> 29U)) * 0x9E3779B97F4A7C15ULL >> shift);
}

constexpr token_id removed = -1;

} // namespace

merge_table::merge_table(std::size_t merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(merges, 8) * 2)),
      shift_(64U - static_cast<unsigned>(std::countr_zero(slots_.size()))) {}

void merge_table::add(token_id left, token_id right, merge what) {
  ENSURE(left >= 0 && right >= 0, "a merge of negative ids {} and {}", left, right);
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = index_of(pair, shift_);
  for (; slots_[at].pair != empty; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].pair == pair)
      return;
  slots_[at] = {pair, what};
  ranks_ = std::max(ranks_, std::size_t{what.rank} + 1);
}

const merge* merge_table::find(token_id left, token_id right) const noexcept {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = index_of(pair, shift_);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair)
      return &slots_[at].what;
    if (slots_[at].pair == empty)
      return nullptr;
  }
}

std::uint64_t merge_table::apply_to_few(large_vector<token_id>& symbols) const {
  constexpr merge none{no_merge, 0};
  std::array<merge, few_symbols_max> merges; // of symbols i and i + 1
  std::size_t count = symbols.size();
  std::uint64_t looked_up = 0;
  const auto look_up = [&](std::size_t i) {
    ++looked_up;
    const merge* found = find(symbols[i], symbols[i + 1]);
    merges[i] = found != nullptr ? *found : none;
  };
  for (std::size_t i = 0; i + 1 < count; ++i)
    look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (merges[i].rank < merges[best].rank)
        best = i;
    if (merges[best].rank == no_merge)
      break;
    symbols[best] = merges[best].product;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i - 1] = merges[i];
    }
    --count;
    if (best + 1 < count)
      look_up(best);
    if (best > 0)
      look_up(best - 1);
  }
  symbols.resize(count);
  return looked_up;
}

// A merged symbol stays at its first position and covers the symbols merged into it. `span` is
// their number, stored at the first and the last of them so that neighbours are found from either
// side. It lies beside the symbol, because positions of a long text are far apart and each access
// costs a cache line. A candidate is stale if the symbols at its position now have another rank or
// none. Otherwise it is the next merge, whichever symbols queued it: rank and position suffice. Few
// bytes per symbol bound the cost of a hostile text.
template <class Queue>
std::uint64_t merge_table::apply_to_many(large_vector<token_id>& symbols, Queue queue) const {
  struct cell {
    token_id symbol;
    std::uint32_t span;
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  ENSURE(count == symbols.size(), "a piece of {} symbols", symbols.size());
  large_vector<cell> cells;
  cells.reserve(count);
  for (const token_id symbol : symbols)
    cells.push_back({symbol, 1});
  symbols.clear();
  if (count > heap_symbols_max)
    symbols.shrink_to_fit();
  const auto merge_at = [&](std::uint32_t at) -> const merge* {
    const std::uint32_t right = at + cells[at].span;
    return cells[at].symbol == removed || right == count
               ? nullptr
               : find(cells[at].symbol, cells[right].symbol);
  };
  std::uint64_t looked_up = 0;
  std::uint32_t left = count;
  const auto consider = [&](std::uint32_t at) {
    ++looked_up;
    if (const merge* what = merge_at(at))
      queue.push(make_candidate(what->rank, at));
  };
  for (std::uint32_t i = 0; i < count; ++i)
    consider(i);
  while (const auto top = queue.pop()) {
    const std::uint32_t at = position_of(*top);
    ++looked_up;
    const merge* what = merge_at(at);
    if (what == nullptr || what->rank != rank_of(*top))
      continue;
    const std::uint32_t right = at + cells[at].span;
    cells[at].symbol = what->product;
    cells[right].symbol = removed;
    --left;
    const std::uint32_t span = cells[at].span + cells[right].span;
    cells[at].span = cells[at + span - 1].span = span;
    if (at > 0) // from left to right, as bucket_queue prefers
      consider(at - cells[at - 1].span);
    consider(at);
  }
  symbols.reserve(left);
  for (const cell& c : cells)
    if (c.symbol != removed)
      symbols.push_back(c.symbol);
  return looked_up;
}

std::uint64_t merge_table::apply(large_vector<token_id>& symbols) const {
  if (symbols.size() <= few_symbols_max)
    return apply_to_few(symbols);
  if (symbols.size() <= heap_symbols_max)
    return apply_to_many(symbols, heap_queue(symbols.size()));
  return apply_to_many(symbols, bucket_queue(ranks_, symbols.size()));
}

} // namespace baton::text
