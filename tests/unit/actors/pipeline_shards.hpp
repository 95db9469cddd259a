// The shards of a pipeline of two stages, as used in its tests.
#pragma once

#include "actors/pipeline.hpp"

#include <doctest/doctest.h>

namespace baton::actors {

inline hello shard(std::uint32_t stage, std::uint64_t incarnation) {
  return {process_id{100 + stage},
          incarnation_id{incarnation},
          role::shard,
          "shard",
          "ipc://s" + std::to_string(incarnation),
          "b",
          1};
}
inline stage_ready ready(std::uint32_t stage, std::uint64_t incarnation, std::uint32_t blocks = 8,
                         std::uint64_t hash = 7) {
  return {process_id{100 + stage}, incarnation_id{incarnation}, stage, 2, blocks, 64, hash, "toy"};
}

inline pipeline opened() {
  pipeline p({0, 2, {}}, epoch_id{50});
  p.on_up(shard(0, 1));
  p.on_up(shard(1, 2));
  REQUIRE(p.on_ready(ready(0, 1)));
  REQUIRE(p.open_if_complete().empty());
  REQUIRE(p.on_ready(ready(1, 2, 6)));
  REQUIRE(p.open_if_complete().size() == 2);
  REQUIRE_FALSE(p.on_opened({p.epoch(), 1}));
  REQUIRE(p.on_opened({p.epoch(), 0}));
  return p;
}

} // namespace baton::actors
