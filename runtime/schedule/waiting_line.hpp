// The order in which requests wait for the workers of one model: levels of priority, each with a
// policy of its own, as Triton's dynamic batcher has them. Pure: time is given.
//
//   push --> waiting in its level --timeout, refused: expire() hands it over
//                                 --timeout, delayed: behind the others of its level, for good
//   push_again --> before all levels, the latest first (it was taken before)
//   any --erase, take--> gone
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace baton::schedule {

inline constexpr std::uint32_t priority_levels_max = 64;

// What a level does with requests that wait for too long, and how many it holds. Triton's
// ModelQueuePolicy.
struct queue_policy {
  std::chrono::microseconds timeout{0}; // of waiting; 0: none
  bool is_delayed = false;              // beyond it: behind the others of its level; else refused
  bool allow_timeout_override = false;  // a request may say a shorter one
  std::size_t max_queue_size = 0;       // 0: no bound of its own

  friend bool operator==(const queue_policy&, const queue_policy&) = default;
};

class waiting_line {
public:
  using instant = std::chrono::steady_clock::time_point;

  // One for each level, the first of which is served first; at least one.
  explicit waiting_line(std::vector<queue_policy> levels);
  waiting_line(waiting_line&&) = default;
  waiting_line& operator=(waiting_line&&) = default;

  const queue_policy& policy(std::size_t level) const { return levels_.at(level).policy; }
  // Of requests that were not taken before.
  bool is_full(std::size_t level) const;

  // `expiry`: when the level's policy befalls it. No request is there twice.
  void push(std::uint64_t request, std::size_t level, std::optional<instant> expiry);
  void push_again(std::uint64_t request);
  // False if it does not wait.
  bool erase(std::uint64_t request);
  // The first ones, in the order in which they are served.
  std::vector<std::uint64_t> take(std::size_t count);

  // Puts those back that are delayed; the others have left the line and are to be refused.
  std::vector<std::uint64_t> expire(instant now);
  std::optional<instant> next_expiry() const;

  std::size_t size() const noexcept { return places_.size(); }
  bool empty() const noexcept { return places_.empty(); }
  std::size_t again() const noexcept { return again_.size(); }
  // In the order in which they are served, until `visitor` says false.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    for (const auto request : again_)
      if (!visitor(request))
        return;
    for (const auto& l : levels_)
      for (const auto* lane : {&l.fresh, &l.delayed})
        for (const auto request : *lane)
          if (!visitor(request))
            return;
  }
  // What must hold after every call (ENSURE).
  void check_integrity() const;

private:
  using sequence = std::list<std::uint64_t>;
  struct lanes_of_level {
    queue_policy policy;
    sequence fresh;
    sequence delayed; // their timeout is over
  };
  enum class lane_kind : std::uint8_t { again, fresh, delayed };
  struct place {
    lane_kind kind = lane_kind::fresh;
    std::size_t level = 0; // of what was not taken before
    sequence::iterator at;
    std::optional<instant> expiry;
  };

  sequence& lane_of(const place& p);

  std::vector<lanes_of_level> levels_;
  sequence again_;
  std::unordered_map<std::uint64_t, place> places_;
  std::set<std::pair<instant, std::uint64_t>> expiries_;
};

} // namespace baton::schedule
