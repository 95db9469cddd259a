// Generations of shards, as the root, the heads and the agents exchange them.
#pragma once

#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// A distribution of the layers over shards. Each generation has shards of its own: the shards of
// another generation are other processes with other ids.
struct generation {
  std::uint32_t number = 0;         // grows with each generation, never reused
  std::uint32_t stages = 1;         // 0: it has no shards
  std::vector<std::string> without; // nodes of nodes.toml that run none of its shards
  std::uint32_t width = 1;          // ranks of each stage
  friend bool operator==(const generation&, const generation&) = default;
};

// Root to head and agents: the generations of a pipeline that have shards. Sent on every change and
// to each newly linked peer. The pipeline runs with `serving` until all shards of `coming` are
// ready, then with `coming`.
struct generations {
  generation serving;
  std::optional<generation> coming;
  std::uint32_t pipeline = 0; // the pipeline they belong to
  friend bool operator==(const generations&, const generations&) = default;
};

// Root to the head of a model that is loaded on demand: it cannot be loaded now. Waiting requests
// end with this reason.
struct load_refused {
#include "schema/members/load_refused.inc"
};

} // namespace baton
