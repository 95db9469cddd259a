// Finds the request whose rows end shards. Rows in flight at a shard's death are suspect. After
// several deaths they run alone; alone at the last death, they are to blame. Pure.
#pragma once

#include "runtime/schedule/context/scheduler_context.hpp"
#include "runtime/schedule/sequences/sequence_table.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace baton::schedule {

// A sequence is blamed if its rows were in flight at so many consecutive shard deaths, alone at the
// last one. `crashes` count shards that ended themselves. `kills` count shards killed from outside
// (out of memory, or a step that did not end).
inline constexpr std::uint32_t crashes_max = 2, kills_max = 3;

class suspects {
public:
  // These positions were in flight when the epoch closed.
  void note(const service_order& who, std::size_t from, std::size_t until);
  // The positions below `end` have passed all stages: no shard has died of them.
  void clear(const service_order& who, std::size_t end);
  // A shard has died: the sequences in flight are isolated from the last but one death on. Returns
  // those to blame, which are not failed yet; valid until the table changes.
  std::vector<sequence*> judge(kv_fate kv, sequence_table& sequences) const;
  void forget() { ranges_.clear(); }

private:
  struct range { // of positions
    std::size_t from = 0;
    std::size_t until = 0;
  };
  std::map<service_order, range> ranges_;
};

} // namespace baton::schedule
