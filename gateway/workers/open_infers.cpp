#include "gateway/workers/open_infers.hpp"

#include <utility>

namespace baton::gateway {
namespace {

double in_seconds(open_infers::instant::duration d) {
  return std::chrono::duration<double>(d).count();
}

} // namespace

std::vector<std::uint64_t> open_infers::numbers() const {
  std::vector<std::uint64_t> all;
  for (const auto& one : open_)
    all.push_back(one.first);
  return all;
}

open_infers::entry* open_infers::find(std::uint64_t request) {
  const auto it = open_.find(request);
  return it == open_.end() ? nullptr : &it->second;
}

void open_infers::enter(open_infer& m, instant now) {
  open_.emplace(m.out->number(), entry{.out = m.out,
                                       .request = std::move(m.request),
                                       .lease = std::move(m.lease),
                                       .trace = std::move(m.trace),
                                       .arrived = now});
}

infer_batch open_infers::begin_batch(std::uint64_t batch,
                                     const std::vector<std::uint64_t>& requests, instant now) {
  infer_batch made;
  made.batch = batch;
  const auto size = static_cast<std::uint32_t>(requests.size());
  batches_[batch] = {size, size, now};
  for (const auto request : requests) {
    auto& e = open_.at(request);
    batches_.erase(e.batch); // the worker of its last batch was lost
    e.batch = batch;
    e.out->begun(now);
    if (e.trace)
      e.trace->data.begun(now);
    auto item = e.request;
    item.request = request;
    made.items.push_back(std::move(item));
  }
  return made;
}

void open_infers::count_end(const entry& of, bool is_well, bool is_cancelled, instant now) {
  if (const auto it = batches_.find(of.batch); it != batches_.end())
    it->second.is_well |= is_well;
  ended_request r;
  r.seconds = in_seconds(now - of.arrived);
  r.is_well = is_well;
  r.is_cancelled = is_cancelled;
  const auto begun = of.out->begun_at();
  r.queue_seconds = begun < of.arrived ? r.seconds : in_seconds(begun - of.arrived);
  config_.facts->metrics().worker_ended(config_.model, config_.version, r);
}

void open_infers::erase(std::uint64_t request, instant now) {
  const auto it = open_.find(request);
  if (it == open_.end())
    return;
  leave_batch(it->second, now);
  open_.erase(it);
  config_.facts->leave();
}

// A batch lasts until the last of its requests has ended.
void open_infers::leave_batch(const entry& of, instant now) {
  const auto it = batches_.find(of.batch);
  if (it == batches_.end() || --it->second.left > 0)
    return;
  const auto& b = it->second;
  if (b.is_well)
    config_.load->tally.batch_ended(b.size, in_seconds(now - b.begun));
  batches_.erase(it);
}

} // namespace baton::gateway
