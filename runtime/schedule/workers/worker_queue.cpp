#include "runtime/schedule/workers/worker_queue.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace baton::schedule {
namespace {

// A request that was running when two workers ended is not given to a third.
constexpr std::uint32_t losses_max = 2;

} // namespace

result<void> worker_queue::enter(const new_request& a, instant now) {
  ENSURE(!entries_.contains(a.request), "request {} comes twice", a.request);
  if (a.priority > limits_.priority_levels)
    return fail_param(errc::invalid_value, "priority", "priority is {}, the model has {} levels",
                      a.priority, limits_.priority_levels);
  const auto priority = a.priority > 0 ? a.priority : limits_.default_priority_level;
  const auto level = static_cast<std::size_t>(std::max<std::uint64_t>(priority, 1) - 1);
  const auto& policy = queue_.policy(level);
  if (a.queue_timeout.count() > 0 && !policy.allow_timeout_override)
    return fail_param(errc::invalid_value, "timeout",
                      "timeout: allow_timeout_override is false at the request's level");
  expire(now); // they free their queue places
  if (limits_.use_job_ticket) {
    if (queue_.size() >= workers_.idle() * limits_.batch_size)
      return fail(errc::no_job_ticket, "no worker of the model is free");
  } else if (queue_.size() >= limits_.max_queued) {
    return fail(errc::overloaded, "{} requests wait for the model's workers, its limit",
                queue_.size());
  }
  if (queue_.is_full(level))
    return fail(errc::overloaded, "{} requests of priority {} wait, the level's max_queue_size",
                policy.max_queue_size, level + 1);
  entry e;
  e.bytes = a.bytes;
  e.arrived = now;
  e.deadline = a.deadline;
  e.goes_alone = a.goes_alone;
  entries_.emplace(a.request, e);
  auto timeout = policy.timeout;
  if (a.queue_timeout.count() > 0)
    timeout = timeout.count() > 0 ? std::min(timeout, a.queue_timeout) : a.queue_timeout;
  queue_.push(a.request, level,
              timeout.count() > 0 ? std::optional<instant>(now + timeout) : std::nullopt);
  form_batches(now);
  return {};
}

void worker_queue::cancel(std::uint64_t request, instant now) {
  const auto it = entries_.find(request);
  if (it == entries_.end() || it->second.is_abandoned)
    return;
  auto& e = it->second;
  if (!e.worker) {
    queue_.erase(request);
    entries_.erase(it);
    return form_batches(now); // a large one may have kept others from being batched
  }
  e.is_abandoned = true;
  orders_.emplace_back(abandon_request{*e.worker, request});
}

void worker_queue::worker_up(worker_incarnation which, instant now) {
  if (const auto known = workers_.incarnation_of(which.process)) {
    if (*known > which.incarnation)
      return;
    worker_gone({which.process, *known}, "its connection was lost", now);
  }
  workers_.add(which);
  absent_since_.reset();
  form_batches(now);
}

void worker_queue::worker_gone(worker_incarnation which, const std::string& how, instant now) {
  if (workers_.find(which) == nullptr)
    return;
  const auto open = workers_.remove(which.process);
  for (auto r = open.rbegin(); r != open.rend(); ++r) // back to the head of the queue, in order
    lose(*r, how);
  form_batches(now);
}

void worker_queue::worker_leaves(worker_incarnation which) {
  auto* w = workers_.find(which);
  if (w == nullptr || std::exchange(w->is_leaving, true))
    return;
  release_if_done(which.process, *w);
}

bool worker_queue::worker_silent(worker_incarnation which, instant now) {
  const auto* w = workers_.find(which);
  if (w == nullptr || !w->open.empty())
    return false;
  worker_gone(which, "it fell silent", now);
  return true;
}

void worker_queue::lose(std::uint64_t request, const std::string& how) {
  auto& e = entries_.at(request);
  e.worker.reset();
  if (e.is_abandoned) {
    entries_.erase(request);
  } else if (e.next_index > 0) {
    end(request, fail(errc::worker_lost, "the worker ended during the answer: {}", how));
  } else if (++e.losses == losses_max) {
    end(request,
        fail(errc::quarantined, "{} workers ended while processing this request; the last: {}",
             losses_max, how));
  } else {
    queue_.requeue(request);
  }
}

void worker_queue::end(std::uint64_t request, error why) {
  entries_.erase(request);
  orders_.emplace_back(end_request{request, std::move(why)});
}

bool worker_queue::take_piece(worker_incarnation which, std::uint64_t request, std::uint32_t index,
                              bool is_last, instant now) {
  auto* w = workers_.find(which);
  if (w == nullptr || w->is_fenced)
    return false;
  const auto it = entries_.find(request);
  if (it == entries_.end() || it->second.worker != which)
    return false;
  auto& e = it->second;
  if (index != e.next_index) {
    fence(which.process, *w, fmt::format("piece {} came in place of {}", index, e.next_index));
    return false;
  }
  ++e.next_index;
  const bool is_wanted = !e.is_abandoned;
  if (is_wanted || is_last)
    w->last_piece_at = now; // work on an abandoned request does not extend its time
  if (is_last) {
    finish_item(which.process, *w, request);
    form_batches(now);
  }
  return is_wanted;
}

void worker_queue::finish_item(process_id process, worker& w, std::uint64_t request) {
  entries_.erase(request);
  workers_.close(w, request);
  release_if_done(process, w);
}

void worker_queue::release_if_done(process_id process, const worker& w) {
  if (w.is_leaving && w.open.empty())
    orders_.emplace_back(release_worker{{process, w.incarnation}});
}

// The worker may still be running: its requests end here, before its process does.
void worker_queue::fence(process_id process, worker& w, std::string why) {
  end_at_worker(workers_.fence(w), fail(errc::worker_lost, "the worker is ended: {}", why));
  orders_.emplace_back(fence_worker{{process, w.incarnation}, std::move(why)});
}

void worker_queue::end_at_worker(const std::vector<std::uint64_t>& open, const error& why) {
  for (const auto request : open) {
    if (entries_.at(request).is_abandoned)
      entries_.erase(request);
    else
      end(request, why);
  }
}

// A request that was running when a worker ended goes alone: a second loss is then attributable.
batch_candidates worker_queue::next_batch() const {
  batch_candidates c;
  if (queue_.requeued() > 0)
    return {1, true, {}};
  std::size_t bytes = 0;
  queue_.visit([&](std::uint64_t request) {
    const auto& e = entries_.at(request);
    bytes += e.bytes;
    if (c.count > 0 && (e.goes_alone || bytes > limits::batch_bytes_max)) {
      c.is_full = true;
      return false;
    }
    c.oldest = c.count == 0 ? e.arrived : std::min(c.oldest, e.arrived);
    c.is_full = ++c.count == limits_.batch_size || e.goes_alone;
    return !c.is_full;
  });
  return c;
}

void worker_queue::expire(instant now) {
  for (const auto request : queue_.expire(now))
    end(request, fail(errc::queue_timeout, "no worker took the request within its queue_timeout"));
}

void worker_queue::form_batches(instant now) {
  expire(now);
  while (!queue_.empty()) {
    const auto idle = workers_.longest_idle();
    if (!idle)
      return;
    const auto batch = next_batch();
    const auto count = queue_.requeued() > 0 ? batch.count : ready(batch, limits_, now);
    if (count == 0)
      return;
    begin(*idle, workers_.all().at(*idle), count, now);
  }
}

void worker_queue::begin(process_id process, worker& w, std::size_t count, instant now) {
  const worker_incarnation which{process, w.incarnation};
  w.open = queue_.take(count);
  w.last_piece_at = now;
  for (const auto request : w.open)
    entries_.at(request).worker = which;
  orders_.emplace_back(start_batch{which, ++batches_, w.open});
}

std::optional<worker_queue::instant> worker_queue::due() const {
  const auto expiry = queue_.next_expiry();
  if (queue_.empty() || !workers_.longest_idle())
    return expiry;
  const auto batch = next_batch().oldest + limits_.max_batch_delay;
  return expiry ? std::min(*expiry, batch) : batch;
}

void worker_queue::tick(instant now) {
  end_late(now);
  watch_workers(now);
  end_unserved(now);
  form_batches(now);
}

void worker_queue::end_late(instant now) {
  std::vector<std::uint64_t> late;
  for (const auto& [request, e] : entries_)
    if (e.deadline && now >= *e.deadline && !e.is_abandoned)
      late.push_back(request);
  std::sort(late.begin(), late.end()); // the same order in every run
  for (const auto request : late) {
    auto& e = entries_.at(request);
    if (!e.worker) {
      queue_.erase(request);
      end(request, fail(errc::queue_timeout, "no worker took the request within its deadline"));
      continue;
    }
    e.is_abandoned = true;
    orders_.emplace_back(abandon_request{*e.worker, request});
    orders_.emplace_back(
        end_request{request, fail(errc::deadline_exceeded, "the request's deadline has passed")});
  }
}

void worker_queue::watch_workers(instant now) {
  for (auto& [process, w] : workers_.all()) {
    if (w.open.empty() || now < w.last_piece_at + limits_.response_timeout)
      continue;
    const auto why = fmt::format("the worker did not answer for {} ms (response_timeout)",
                                 limits_.response_timeout.count());
    end_at_worker(workers_.fence(w), fail(errc::deadline_exceeded, "{}", why));
    orders_.emplace_back(fence_worker{{process, w.incarnation}, why});
  }
}

void worker_queue::end_unserved(instant now) {
  if (workers() > 0) {
    absent_since_.reset();
    return;
  }
  if (!absent_since_)
    absent_since_ = now;
  std::vector<std::uint64_t> unserved;
  queue_.visit([&](std::uint64_t request) {
    if (now >= std::max(*absent_since_, entries_.at(request).arrived) + limits_.absence_max)
      unserved.push_back(request);
    return true;
  });
  for (const auto request : unserved) {
    queue_.erase(request);
    end(request, fail(errc::not_ready, "the model has no worker at the moment"));
  }
}

void worker_queue::check_integrity() const {
  queue_.check_integrity();
  // Requeued requests were admitted before.
  const auto fresh = queue_.size() - queue_.requeued();
  ENSURE(limits_.use_job_ticket || fresh <= limits_.max_queued, "{} requests wait", fresh);
  std::set<std::uint64_t> seen;
  queue_.visit([&](std::uint64_t request) {
    const auto it = entries_.find(request);
    ENSURE(it != entries_.end() && !it->second.worker, "request {} waits and runs", request);
    ENSURE(seen.insert(request).second, "request {} waits twice", request);
    return true;
  });
  for (const auto& [process, w] : workers_.all()) {
    ENSURE(w.open.size() <= limits_.batch_size, "a batch of {}", w.open.size());
    ENSURE(!w.is_fenced || w.open.empty(), "a fenced worker has requests");
    const worker_incarnation which{process, w.incarnation};
    for (const auto request : w.open) {
      const auto it = entries_.find(request);
      ENSURE(it != entries_.end() && it->second.worker == which, "request {} is not where it runs",
             request);
      ENSURE(seen.insert(request).second, "request {} runs twice", request);
    }
  }
  ENSURE(seen.size() == entries_.size(), "{} requests are in no list",
         entries_.size() - seen.size());
}

} // namespace baton::schedule
