#include "runtime/collective/ranked_collective.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace baton::collective {

ranked_collective::ranked_collective(std::uint32_t rank, std::uint32_t width,
                                     std::size_t piece_floats)
    : rank_(rank), width_(width), piece_floats_(piece_floats) {
  ENSURE(rank < width, "rank {} of {}", rank, width);
  failure_ = fail(errc::stale_epoch, "rank {} of a group has entered no epoch", rank);
}

result<void> ranked_collective::kept(result<void> outcome) {
  if (!outcome && !failure_)
    failure_ = outcome.error();
  return outcome;
}

result<void> ranked_collective::gather(std::span<const float> own, std::span<float> all,
                                       std::span<const std::size_t> counts) {
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  ENSURE(counts.size() == width_ && own.size() == counts[rank_] &&
             (rank_ != 0 || all.size() == total),
         "rank {} gathers {} floats into {}", rank_, own.size(), all.size());
  if (failure_)
    return *failure_;
  if (rank_ == 0 && own.data() != all.data() && !own.empty())
    std::memcpy(all.data(), own.data(), own.size_bytes());
  // Rank 0 gives nothing to the others.
  const std::size_t longest = width_ == 1 ? 0 : *std::max_element(counts.begin() + 1, counts.end());
  for (std::size_t done = 0; done < longest; done += piece_floats_)
    if (auto ok = gather_piece(own, all, counts, done); !ok)
      return kept(ok);
  return kept(check_epoch());
}

} // namespace baton::collective
