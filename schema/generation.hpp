// Generations of shards, as root, head and agents speak of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// A way to spread the layers over shards. Each has shards of its own: those of another generation
// are other processes under other nodes.
struct generation {
  std::uint32_t number = 0;         // grows with each, never used twice
  std::uint32_t stages = 1;         // 0: it has no shards
  std::vector<std::string> without; // nodes of nodes.toml that have none of its shards
  std::uint32_t width = 1;          // ranks of each stage
  friend bool operator==(const generation&, const generation&) = default;
};

// Root to head and agents: the generations of a pipeline whose shards there are. Said whenever that
// changes, and to whoever is linked. The pipeline runs with the one that serves until all shards of
// the coming one are ready, then with that one.
struct generations {
  generation serving;
  std::optional<generation> coming;
  std::uint32_t pipeline = 0; // whose they are
  friend bool operator==(const generations&, const generations&) = default;
};

} // namespace baton
