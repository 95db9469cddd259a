#include "runtime/schedule/context/prompt_lookup.hpp"

#include <algorithm>

namespace baton::schedule {

std::vector<token_id> look_up(std::span<const token_id> ids, std::size_t count,
                              const lookup_config& config) {
  ids = ids.last(std::min(ids.size(), config.window));
  if (count == 0 || ids.size() <= config.ngram_min)
    return {};
  // One pass from the end: the number of ids before each position that equal the last ids.
  std::size_t best = config.ngram_min - 1, after = 0;
  for (std::size_t position = ids.size() - 1; position > best; --position) {
    std::size_t same = 0;
    while (same < config.ngram_max && same < position &&
           ids[position - 1 - same] == ids[ids.size() - 1 - same])
      ++same;
    if (same <= best)
      continue;
    best = same;
    after = position;
    if (best == config.ngram_max)
      break;
  }
  if (after == 0)
    return {};
  const auto found = ids.subspan(after, std::min(count, ids.size() - after));
  return {found.begin(), found.end()};
}

} // namespace baton::schedule
