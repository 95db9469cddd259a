#include "gateway/desk_state.hpp"

#include <algorithm>

namespace baton::gateway {

std::chrono::milliseconds sooner(std::chrono::milliseconds a,
                                 std::chrono::milliseconds b) noexcept {
  if (a.count() == 0 || b.count() == 0) {
    return std::max(a, b);
  }
  return std::min(a, b);
}

chunk_verdict judge(const open_entry& entry, const chunk& c) noexcept {
  if (c.choice >= entry.delivered.size()) {
    return chunk_verdict::gap;
  }
  const auto delivered = entry.delivered[c.choice];
  const bool covers_old = c.index <= delivered && c.count > 0;
  if (entry.finished[c.choice] || covers_old) {
    return chunk_verdict::duplicate;
  }
  return c.count <= c.index && c.index - c.count == delivered ? chunk_verdict::deliver
                                                              : chunk_verdict::gap;
}

submit submit_again(const open_entry& entry) {
  auto s = entry.submit;
  for (std::size_t i = 0; i < entry.delivered_ids.size(); ++i) {
    s.delivered.push_back({entry.delivered_ids[i], entry.finished[i]});
  }
  return s;
}

resume resume_of(const open_entry& entry) {
  resume r;
  r.request = entry.reserve.request;
  r.gateway = entry.reserve.gateway;
  r.ticket = entry.ticket();
  r.resume_key = entry.reserve.resume_key;
  for (std::size_t i = 0; i < entry.delivered.size(); ++i) {
    r.from.push_back({entry.delivered[i], entry.finished[i] || entry.had_finish[i]});
  }
  return r;
}

bool take_in(open_entry& entry, const chunk& c) {
  entry.delivered[c.choice] = c.index;
  if (entry.is_whole) {
    auto& ids = entry.delivered_ids[c.choice];
    ids.insert(ids.end(), c.ids.begin(), c.ids.end());
  }
  entry.gaps = 0;
  entry.prompt_tokens = std::max(entry.prompt_tokens, c.prompt_tokens);
  if (c.finish == finish::none) {
    return false;
  }
  entry.finished[c.choice] = true;
  return --entry.choices_left == 0;
}

} // namespace baton::gateway
