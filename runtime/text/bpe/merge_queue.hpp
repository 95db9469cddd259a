// Priority queues for the merge loop of long pieces: lowest rank first, leftmost among equals.
// There are two, with one interface: a heap, and buckets by rank for pieces so long that a heap's
// logarithm and memory accesses are noticeable. Used only by merge_table, one per piece.
#pragma once

#include "runtime/text/bpe/large_pages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace baton::text {

// A pair that was mergeable when it was queued. The upper half holds its rank and the lower half
// the position of its left symbol, so the smallest candidate is next.
using merge_candidate = std::uint64_t;

constexpr merge_candidate make_candidate(std::uint32_t rank, std::uint32_t at) noexcept {
  return (static_cast<merge_candidate>(rank) << 32U) | at;
}
constexpr std::uint32_t rank_of(merge_candidate what) noexcept {
  return static_cast<std::uint32_t>(what >> 32U);
}
constexpr std::uint32_t position_of(merge_candidate what) noexcept {
  return static_cast<std::uint32_t>(what);
}

class heap_queue {
public:
  explicit heap_queue(std::size_t expected) { heap_.reserve(expected); }

  void push(merge_candidate what) {
    heap_.push_back(what);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }
  std::optional<merge_candidate> top() const noexcept {
    return heap_.empty() ? std::nullopt : std::optional(heap_.front());
  }
  std::optional<merge_candidate> pop() {
    const auto first = top();
    if (first) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      heap_.pop_back();
    }
    return first;
  }

private:
  large_vector<merge_candidate> heap_; // the smallest on top
};

// Ranks usually grow with the length of the merged text. So all candidates of a rank are queued
// before the first one is taken, in a few runs from left to right. Late candidates go into a heap,
// so the order is the same for any vocabulary.
class bucket_queue {
public:
  // `ranks`: highest rank + 1. `expected`: candidates queued at a time. Reserved pages cost nothing
  // until used, whereas a list that grows by doubling is copied into fresh pages.
  bucket_queue(std::size_t ranks, std::size_t expected) : buckets_(ranks) {
    links_.reserve(expected);
  }

  void push(merge_candidate what) {
    const std::uint32_t rank = rank_of(what);
    if (rank < rank_done_) {
      late_.push(what);
      return;
    }
    const std::uint32_t made = new_link(position_of(what));
    bucket& into = buckets_[rank];
    if (into.first == none)
      ranks_.push(rank);
    (into.first == none ? into.first : links_[into.last].next) = made;
    into.last = made;
  }

  std::optional<merge_candidate> pop() {
    if (next_ == run_.size() && !late_.top())
      take_run();
    const auto late = late_.top();
    if (next_ == run_.size())
      return late_.pop();
    const merge_candidate next = make_candidate(rank_done_ - 1, run_[next_]);
    if (late && *late < next)
      return late_.pop();
    ++next_;
    return next;
  }

private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct bucket {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };
  struct link {
    std::uint32_t position;
    std::uint32_t next;
  };

  std::uint32_t new_link(std::uint32_t position) {
    if (free_ == none) {
      links_.push_back({position, none});
      return static_cast<std::uint32_t>(links_.size() - 1);
    }
    const std::uint32_t made = free_;
    free_ = links_[made].next;
    links_[made] = {position, none};
    return made;
  }

  // Moves the lowest bucket into run_, from left to right.
  void take_run() {
    run_.clear();
    next_ = 0;
    const auto rank = ranks_.pop();
    if (!rank)
      return;
    bucket& from = buckets_[*rank];
    for (std::uint32_t at = from.first; at != none; at = links_[at].next)
      run_.push_back(links_[at].position);
    if (!std::is_sorted(run_.begin(), run_.end()))
      std::sort(run_.begin(), run_.end());
    links_[from.last].next = free_;
    free_ = from.first;
    from = {};
    rank_done_ = static_cast<std::uint32_t>(*rank) + 1;
  }

  large_vector<bucket> buckets_; // [ranks], lists in links_
  large_vector<link> links_;
  std::uint32_t free_ = none;       // list of unused links
  heap_queue ranks_{0};             // of the non-empty buckets
  large_vector<std::uint32_t> run_; // positions of the rank being merged
  std::size_t next_ = 0;            // in run_
  std::uint32_t rank_done_ = 0;     // the current run's rank + 1
  heap_queue late_{0};
};

} // namespace baton::text
