#include "runtime/engine/prompt_scores.hpp"

namespace baton::engine {

std::vector<scored_row> scored_rows(const micro_batch& batch) {
  std::vector<scored_row> all;
  std::uint32_t first = 0, slices = 0; // rows in the first `slices` slices
  for (std::uint32_t i = 0; i < batch.pools.size(); ++i) {
    const pool& p = batch.pools[i];
    for (; slices < p.slice; ++slices)
      first += batch.slices[slices].rows;
    if (p.how != pooling::scores)
      continue;
    const std::uint32_t rows = batch.slices[p.slice].rows;
    for (std::uint32_t r = first; r < first + rows; ++r)
      all.push_back({i, r, r + 1 < first + rows ? batch.tokens[r + 1] : p.next});
  }
  return all;
}

} // namespace baton::engine
