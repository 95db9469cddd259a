#include "runtime/schedule/steps/suspects.hpp"

#include <algorithm>

namespace baton::schedule {

void suspects::note(const service_order& who, std::size_t from, std::size_t until) {
  ranges_.try_emplace(who, range{from, 0}).first->second.until = until;
}

void suspects::clear(const service_order& who, std::size_t end) {
  const auto it = ranges_.find(who);
  if (it == ranges_.end())
    return;
  it->second.from = std::max(it->second.from, end);
  if (it->second.from >= it->second.until)
    ranges_.erase(it);
}

// A shard that is killed from outside leaves its KV; one that ends itself does not. In the latter
// case a request is likely to blame, so every row in flight is tried alone. This costs each request
// a step, so after kills it is done only if the same rows were in flight before.
std::vector<sequence*> suspects::judge(kv_fate kv, sequence_table& sequences) const {
  std::vector<sequence*> blamed;
  const std::uint32_t deaths_max = kv == kv_fate::lost ? crashes_max : kills_max;
  for (const auto& [who, span] : ranges_) {
    sequence* suspect = sequences.find(who);
    if (!suspect || suspect->state == sequence_state::ended)
      continue;
    sequence& s = *suspect;
    const auto [from, until] = span;
    const bool overlaps = s.deaths > 0 && from < s.suspect_until && s.suspect_from < until;
    s.suspect_from = overlaps ? std::max(s.suspect_from, from) : from;
    s.suspect_until = overlaps ? std::min(s.suspect_until, until) : until;
    s.deaths = overlaps ? s.deaths + 1 : 1;
    s.is_isolated |= s.deaths >= deaths_max - 1;
    sequences.update(s);
    if (ranges_.size() > 1 || s.deaths < deaths_max)
      continue;
    blamed.push_back(&s);
  }
  return blamed;
}

} // namespace baton::schedule
