#include "runtime/schedule/workers/worker_table.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <utility>

namespace baton::schedule {

worker_table::worker* worker_table::find(worker_incarnation which) {
  const auto it = workers_.find(which.process);
  return it != workers_.end() && it->second.incarnation == which.incarnation ? &it->second
                                                                             : nullptr;
}

std::optional<incarnation_id> worker_table::incarnation_of(process_id process) const {
  const auto it = workers_.find(process);
  return it == workers_.end() ? std::nullopt : std::optional(it->second.incarnation);
}

void worker_table::add(worker_incarnation which) {
  const auto [it, is_new] = workers_.try_emplace(which.process);
  ENSURE(is_new, "worker {} has an incarnation already", which.process.value);
  it->second.incarnation = which.incarnation;
  it->second.idle_since = ++idle_count_;
}

std::vector<std::uint64_t> worker_table::remove(process_id process) {
  const auto it = workers_.find(process);
  ENSURE(it != workers_.end(), "there is no worker {}", process.value);
  auto open = std::move(it->second.open);
  workers_.erase(it);
  return open;
}

void worker_table::close(worker& at, std::uint64_t request) {
  std::erase(at.open, request);
  if (at.open.empty())
    at.idle_since = ++idle_count_;
}

std::vector<std::uint64_t> worker_table::fence(worker& at) {
  at.is_fenced = true;
  return std::exchange(at.open, {});
}

std::size_t worker_table::taking() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const auto& w) { return !w.second.is_leaving && !w.second.is_fenced; }));
}

std::size_t worker_table::idle() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const auto& w) { return w.second.takes_batches(); }));
}

std::optional<process_id> worker_table::longest_idle() const {
  const std::pair<const process_id, worker>* first = nullptr;
  for (const auto& w : workers_)
    if (w.second.takes_batches() && (!first || w.second.idle_since < first->second.idle_since))
      first = &w;
  return first ? std::optional(first->first) : std::nullopt;
}

std::vector<worker_incarnation> worker_table::incarnations() const {
  std::vector<worker_incarnation> all;
  for (const auto& [process, w] : workers_)
    if (!w.is_fenced)
      all.push_back({process, w.incarnation});
  return all;
}

} // namespace baton::schedule
