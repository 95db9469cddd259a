#include "cluster/plan/model_fit.hpp"

namespace baton::cluster {

std::uint64_t file_bytes_that_fit(std::uint64_t memory_available) noexcept {
  const auto room =
      static_cast<std::uint64_t>(static_cast<double>(memory_available) * (1 - kv_share_of_choice));
  if (room <= process_bytes)
    return 0;
  return static_cast<std::uint64_t>(static_cast<double>(room - process_bytes) / weight_overhead);
}

} // namespace baton::cluster
