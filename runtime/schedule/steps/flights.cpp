#include "runtime/schedule/steps/flights.hpp"

#include <algorithm>

namespace baton::schedule {

namespace {

template <class Flight>
std::optional<Flight> taken_from(std::map<batch_id, Flight>& all, batch_id batch) {
  const auto it = all.find(batch);
  if (it == all.end())
    return std::nullopt;
  auto found = std::move(it->second);
  all.erase(it);
  return found;
}

} // namespace

std::optional<flight> flights::take(batch_id batch) {
  auto landed = taken_from(flights_, batch);
  if (landed)
    has_isolated_ = false;
  return landed;
}

std::optional<std::vector<late_part>> flights::take_late(batch_id batch) {
  return taken_from(late_, batch);
}

void flights::lose_copies(const std::vector<service_order>& copied) {
  for (auto& [batch, f] : flights_)
    f.lacks_copies |= std::find_first_of(f.copied.begin(), f.copied.end(), copied.begin(),
                                         copied.end()) != f.copied.end();
}

void flights::close_epoch() {
  has_isolated_ = false;
  for (const auto& [batch, f] : flights_) {
    if (!f.copied.empty()) // its copies are lost
      continue;
    auto& late = late_[batch];
    for (const part& p : f.parts)
      late.push_back({.who = p.of->service_order(),
                      .position = p.position,
                      .rows = p.rows - p.drafts,
                      .draws = p.draws(),
                      .pools = p.pools,
                      .scores = p.scores,
                      .is_prefill = p.is_prefill,
                      .state_to = p.state_to});
  }
  flights_.clear();
}

} // namespace baton::schedule
