// Two loops with the same result: a scan for short pieces (nearly all), a heap for long ones.
#include "runtime/text/merge_table.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

namespace baton::text {

namespace {

// Up to here scanning all pairs for the best beats a heap; words are shorter than this.
constexpr std::size_t few_symbols_max = 32;
constexpr std::uint32_t no_merge = std::numeric_limits<std::uint32_t>::max();

std::uint64_t pair_of(token_id left, token_id right) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
         static_cast<std::uint32_t>(right);
}

// Fibonacci hashing: the upper bits of the product depend on all bits of the pair.
std::size_t index_of(std::uint64_t pair, unsigned shift) noexcept {
  return static_cast<std::size_t>((pair ^ (pair >> 29U)) * 0x9E3779B97F4A7C15ULL >> shift);
}

// A symbol of a long piece, in a list: removing one does not move the others.
struct node {
  token_id id;
  std::uint32_t previous;
  std::uint32_t next;
};
constexpr std::uint32_t no_node = std::numeric_limits<std::uint32_t>::max();
constexpr token_id removed = -1;

// A pair that can be merged: rank in the upper half, left node in the lower, so that the smallest
// is the next to merge. Nothing else is kept: a candidate is void exactly if the nodes there now
// have another rank or none, and one that is not void says what to merge next, whichever nodes it
// was made for. Eight bytes bound what a hostile text can cost.
using candidate = std::uint64_t;

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

std::uint64_t merge_table::apply(std::vector<token_id>& symbols) const {
  if (symbols.size() <= few_symbols_max)
    return apply_to_few(symbols);
  return apply_to_many(symbols);
}

std::uint64_t merge_table::apply_to_few(std::vector<token_id>& symbols) const {
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

std::uint64_t merge_table::apply_to_many(std::vector<token_id>& symbols) const {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  ENSURE(count == symbols.size(), "a piece of {} symbols", symbols.size());
  std::vector<node> nodes(count);
  std::vector<candidate> heap; // the smallest on top
  heap.reserve(count);
  const auto merge_at = [&](std::uint32_t at) -> const merge* {
    const node& left = nodes[at];
    return left.id == removed || left.next == no_node ? nullptr
                                                      : find(left.id, nodes[left.next].id);
  };
  std::uint64_t looked_up = 0;
  const auto consider = [&](std::uint32_t at) {
    ++looked_up;
    if (const merge* what = merge_at(at)) {
      heap.push_back((static_cast<candidate>(what->rank) << 32U) | at);
      std::push_heap(heap.begin(), heap.end(), std::greater<>{});
    }
  };
  for (std::uint32_t i = 0; i < count; ++i)
    nodes[i] = {symbols[i], i == 0 ? no_node : i - 1, i + 1 == count ? no_node : i + 1};
  for (std::uint32_t i = 0; i < count; ++i)
    consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    const candidate top = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    ++looked_up;
    const merge* what = merge_at(at);
    if (what == nullptr || what->rank != top >> 32U)
      continue;
    node& left = nodes[at];
    node& right = nodes[left.next];
    left.id = what->product;
    left.next = right.next;
    right.id = removed;
    if (left.next != no_node)
      nodes[left.next].previous = at;
    consider(at);
    if (left.previous != no_node)
      consider(left.previous);
  }
  symbols.clear();
  for (std::uint32_t at = 0; at != no_node; at = nodes[at].next)
    symbols.push_back(nodes[at].id);
  return looked_up;
}

} // namespace baton::text
