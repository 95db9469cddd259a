// Counts the sequences that this gateway has open at each pipeline right now. A head's load report
// arrives only a few times a second and is old by then. Any thread.
#pragma once

#include "schema/ids.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace baton::gateway {

// Held while the sequences are open; the last copy gives them back.
using inflight_lease = std::shared_ptr<void>;

class inflight_counts {
public:
  inflight_lease take(std::uint32_t pipeline, std::uint32_t sequences) {
    counts_->at(pipeline) += sequences;
    return {nullptr, [counts = counts_, pipeline, sequences](std::nullptr_t) {
              counts->at(pipeline) -= sequences;
            }};
  }
  std::uint32_t at(std::uint32_t pipeline) const { return counts_->at(pipeline); }

private:
  using counts = std::array<std::atomic<std::uint32_t>, pipelines_max>;
  std::shared_ptr<counts> counts_ = std::make_shared<counts>();
};

} // namespace baton::gateway
