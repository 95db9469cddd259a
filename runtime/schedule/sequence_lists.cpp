#include "runtime/schedule/sequence_lists.hpp"

#include "schema/ensure.hpp"

namespace baton::schedule {
namespace {

filing place_of(const sequence& s, bool is_parked) {
  filing f;
  f.waits = s.state == sequence_state::waiting && !is_parked;
  f.runs = s.state == sequence_state::running;
  f.is_isolated = f.runs && s.must_run_alone();
  f.prefills = f.runs && !f.is_isolated && s.rows_left() > (s.pools_next() ? 0 : 1);
  f.is_ready = f.runs && !f.is_isolated && s.rows_left() == 1 && s.drawing == 0 && !s.is_void &&
               s.drafts.empty() && !s.pools_next();
  f.is_leaving = !f.runs && s.in_flight > 0;
  f.is_gone = s.state == sequence_state::ended && s.in_flight == 0;
  return f;
}

sequence_lists::waiting_turn waiting_turn_of(const sequence& s) {
  return {s.priority, !s.has_started, s.id};
}

template <class List, class Key>
void move(List& list, bool was_in, bool is_in, const Key& key, sequence& s) {
  if (was_in == is_in)
    return;
  if (is_in)
    list.emplace(key, &s);
  else
    list.erase(key);
}

} // namespace

void ready_list::push(sequence& s) {
  s.ready_since = s.last_batch;
  auto& [first, last] = batches_[s.ready_since];
  s.ready_before = last;
  s.ready_behind = nullptr;
  (last ? last->ready_behind : first) = &s;
  last = &s;
  ++size_;
}

void ready_list::erase(sequence& s) {
  if (s.ready_before && s.ready_behind) {
    s.ready_before->ready_behind = s.ready_behind;
    s.ready_behind->ready_before = s.ready_before;
  } else {
    const auto it = batches_.find(s.ready_since);
    ENSURE(it != batches_.end(), "ticket {} is not among those of batch {}", s.id.ticket.value,
           s.ready_since);
    auto& [first, last] = it->second;
    (s.ready_before ? s.ready_before->ready_behind : first) = s.ready_behind;
    (s.ready_behind ? s.ready_behind->ready_before : last) = s.ready_before;
    if (!first)
      batches_.erase(it);
  }
  s.ready_before = s.ready_behind = nullptr;
  --size_;
}

void ready_list::copy_to(std::vector<sequence*>& to, std::size_t count) const {
  for (const auto& [batch, line] : batches_)
    for (sequence* s = line.first; s; s = s->ready_behind) {
      if (count-- == 0)
        return;
      to.push_back(s);
    }
}

void sequence_lists::file(sequence& s, bool is_parked) {
  const filing was = s.filed;
  const filing is = place_of(s, is_parked);
  if (was == is)
    return;
  move(waiting_, was.waits, is.waits, waiting_turn_of(s), s);
  move(running_, was.runs, is.runs, s.turn(), s);
  running_potential_ += is.runs ? s.potential_tokens() : 0;
  running_potential_ -= was.runs ? s.potential_tokens() : 0;
  move(prefilling_, was.prefills, is.prefills, s.turn(), s);
  move(isolated_, was.is_isolated, is.is_isolated, s.turn(), s);
  if (was.is_ready && !is.is_ready)
    ready_.erase(s);
  else if (is.is_ready && !was.is_ready)
    ready_.push(s);
  leaving_ += is.is_leaving ? 1 : 0;
  leaving_ -= was.is_leaving ? 1 : 0;
  if (is.is_gone)
    gone_.push_back(s.turn());
  s.filed = is;
}

void sequence_lists::came_back(sequence& s, batch_id batch) {
  if (s.filed.is_ready)
    ready_.erase(s);
  s.last_batch = batch.value;
  if (s.filed.is_ready)
    ready_.push(s);
}

void sequence_lists::check_integrity(const std::map<turn, sequence>& all,
                                     const std::function<bool(const sequence&)>& is_parked) const {
  std::size_t waiting = 0, running = 0, prefilling = 0, isolated = 0, ready = 0, leaving = 0,
              gone = 0;
  for (const auto& [who, s] : all) {
    ENSURE(place_of(s, is_parked(s)) == s.filed, "ticket {} is in the lists of another state",
           who.id.ticket.value);
    waiting += s.filed.waits ? 1 : 0;
    running += s.filed.runs ? 1 : 0;
    prefilling += s.filed.prefills ? 1 : 0;
    isolated += s.filed.is_isolated ? 1 : 0;
    ready += s.filed.is_ready ? 1 : 0;
    leaving += s.filed.is_leaving ? 1 : 0;
    gone += s.filed.is_gone ? 1 : 0;
  }
  ENSURE(waiting == waiting_.size() && running == running_.size() &&
             prefilling == prefilling_.size() && isolated == isolated_.size() &&
             ready == ready_.size() && leaving == leaving_ && gone == gone_.size(),
         "{} wait, {} run, {} are ready, {} leave: the lists have {}, {}, {}, {}", waiting, running,
         ready, leaving, waiting_.size(), running_.size(), ready_.size(), leaving_);
  std::uint64_t potential = 0;
  for (const auto& [who, s] : running_)
    potential += s->potential_tokens();
  ENSURE(potential == running_potential_, "{} potential tokens, {} are counted", potential,
         running_potential_);
  std::vector<sequence*> line;
  ready_.copy_to(line, ready_.size());
  ENSURE(line.size() == ready_.size(), "{} are ready, {} in line", ready_.size(), line.size());
}

} // namespace baton::schedule
