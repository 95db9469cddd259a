// The queue of requests for the workers of one model: priority levels, each with its own policy, as
// in Triton's dynamic batcher. Pure: time is an argument.
//
//   push --> waiting in its level --timeout, refused: returned by expire()
//                                 --timeout, delayed: behind the others of its level, permanently
//   requeue --> before all levels, the latest first (it was taken before)
//   any --erase, take--> removed
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

// A level's policy for requests that wait too long, and its capacity. Triton's ModelQueuePolicy.
struct queue_policy {
  std::chrono::microseconds timeout{0}; // maximum wait; 0: none
  // after the timeout: moved behind the others of its level; else refused
  bool is_delayed = false;
  bool allow_timeout_override = false; // a request may give a shorter timeout
  std::size_t max_queue_size = 0;      // 0: no limit of its own

  friend bool operator==(const queue_policy&, const queue_policy&) = default;
};

class request_queue {
public:
  using instant = std::chrono::steady_clock::time_point;

  // One policy per level; the first level is served first. At least one.
  explicit request_queue(std::vector<queue_policy> levels);
  request_queue(request_queue&&) = default;
  request_queue& operator=(request_queue&&) = default;

  const queue_policy& policy(std::size_t level) const { return levels_.at(level).policy; }
  // Counts requests that were not taken before.
  bool is_full(std::size_t level) const;

  // `expiry`: when the level's policy applies. Requires: the request is not in the queue.
  void push(std::uint64_t request, std::size_t level, std::optional<instant> expiry);
  void requeue(std::uint64_t request);
  // False if it is not in the queue.
  bool erase(std::uint64_t request);
  // The first ones, in order of service.
  std::vector<std::uint64_t> take(std::size_t count);

  // Moves expired requests of delaying levels back; removes and returns those to be refused.
  std::vector<std::uint64_t> expire(instant now);
  std::optional<instant> next_expiry() const;

  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }
  std::size_t requeued() const noexcept { return requeued_.size(); }
  // In order of service, until `visitor` returns false.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    for (const auto request : requeued_)
      if (!visitor(request))
        return;
    for (const auto& l : levels_)
      for (const auto* lane : {&l.fresh, &l.delayed})
        for (const auto request : *lane)
          if (!visitor(request))
            return;
  }
  // Invariants after every call (ENSURE).
  void check_integrity() const;

private:
  using sequence = std::list<std::uint64_t>;
  struct lanes_of_level {
    queue_policy policy;
    sequence fresh;
    sequence delayed; // requests past their timeout
  };
  enum class lane_kind : std::uint8_t { requeued, fresh, delayed };
  struct entry {
    lane_kind kind = lane_kind::fresh;
    std::size_t level = 0; // unless it was taken before
    sequence::iterator at;
    std::optional<instant> expiry;
  };

  sequence& lane_of(const entry& p);

  std::vector<lanes_of_level> levels_;
  sequence requeued_;
  std::unordered_map<std::uint64_t, entry> entries_;
  std::set<std::pair<instant, std::uint64_t>> expiries_;
};

} // namespace baton::schedule
