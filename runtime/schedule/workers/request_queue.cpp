#include "runtime/schedule/workers/request_queue.hpp"

#include "schema/ensure.hpp"

#include <iterator>

namespace baton::schedule {

request_queue::request_queue(std::vector<queue_policy> levels) {
  ENSURE(!levels.empty() && levels.size() <= priority_levels_max, "{} levels", levels.size());
  levels_.reserve(levels.size());
  for (auto& policy : levels)
    levels_.push_back({policy, {}, {}});
}

request_queue::sequence& request_queue::lane_of(const entry& p) {
  if (p.kind == lane_kind::requeued)
    return requeued_;
  auto& l = levels_.at(p.level);
  return p.kind == lane_kind::fresh ? l.fresh : l.delayed;
}

bool request_queue::is_full(std::size_t level) const {
  const auto& l = levels_.at(level);
  return l.policy.max_queue_size > 0 &&
         l.fresh.size() + l.delayed.size() >= l.policy.max_queue_size;
}

void request_queue::push(std::uint64_t request, std::size_t level, std::optional<instant> expiry) {
  auto& to = levels_.at(level).fresh;
  const auto at = to.insert(to.end(), request);
  const bool is_new = entries_.emplace(request, entry{lane_kind::fresh, level, at, expiry}).second;
  ENSURE(is_new, "request {} waits twice", request);
  if (expiry)
    expiries_.emplace(*expiry, request);
}

void request_queue::requeue(std::uint64_t request) {
  const auto at = requeued_.insert(requeued_.begin(), request);
  const bool is_new =
      entries_.emplace(request, entry{lane_kind::requeued, 0, at, std::nullopt}).second;
  ENSURE(is_new, "request {} waits twice", request);
}

bool request_queue::erase(std::uint64_t request) {
  const auto it = entries_.find(request);
  if (it == entries_.end())
    return false;
  const auto& p = it->second;
  if (p.expiry)
    expiries_.erase({*p.expiry, request});
  lane_of(p).erase(p.at);
  entries_.erase(it);
  return true;
}

std::vector<std::uint64_t> request_queue::take(std::size_t count) {
  std::vector<std::uint64_t> first;
  first.reserve(count);
  visit([&](std::uint64_t request) {
    if (first.size() < count)
      first.push_back(request);
    return first.size() < count;
  });
  for (const auto request : first)
    erase(request);
  return first;
}

std::vector<std::uint64_t> request_queue::expire(instant now) {
  std::vector<std::uint64_t> refused;
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const auto request = expiries_.begin()->second;
    expiries_.erase(expiries_.begin());
    auto& p = entries_.at(request);
    p.expiry.reset();
    auto& l = levels_.at(p.level);
    if (l.policy.is_delayed) {
      l.delayed.splice(l.delayed.end(), l.fresh, p.at);
      p.kind = lane_kind::delayed;
    } else {
      erase(request);
      refused.push_back(request);
    }
  }
  return refused;
}

std::optional<request_queue::instant> request_queue::next_expiry() const {
  if (expiries_.empty())
    return std::nullopt;
  return expiries_.begin()->first;
}

void request_queue::check_integrity() const {
  std::size_t seen = requeued_.size();
  for (const auto& l : levels_) {
    const auto held = l.fresh.size() + l.delayed.size();
    seen += held;
    ENSURE(l.policy.max_queue_size == 0 || held <= l.policy.max_queue_size, "{} in a level", held);
    ENSURE(l.policy.is_delayed || l.delayed.empty(), "a level that refuses has delayed requests");
  }
  ENSURE(seen == entries_.size(), "{} requests stand in {} places", seen, entries_.size());
  std::size_t expiring = 0;
  for (const auto& [request, p] : entries_) {
    ENSURE(*p.at == request, "request {} is not where it waits", request);
    expiring += p.expiry ? 1 : 0;
    ENSURE(!p.expiry || expiries_.contains({*p.expiry, request}), "request {} never expires",
           request);
  }
  ENSURE(expiring == expiries_.size(), "{} expiries of {} requests", expiries_.size(), expiring);
}

} // namespace baton::schedule
