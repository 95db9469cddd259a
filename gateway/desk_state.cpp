#include "gateway/desk_state.hpp"

#include <algorithm>

namespace baton::gateway {

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

bool take_in(open_entry& entry, const chunk& c) {
  entry.delivered[c.choice] = c.index;
  entry.prompt_tokens = std::max(entry.prompt_tokens, c.prompt_tokens);
  if (c.finish == finish::none) {
    return false;
  }
  entry.finished[c.choice] = true;
  return --entry.choices_left == 0;
}

} // namespace baton::gateway
