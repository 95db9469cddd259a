// The loads of a model on demand as JSON, in /cluster and `cluster status --json`.
#pragma once

#include "gateway/base/snapshot.hpp"

#include <nlohmann/json.hpp>

namespace baton::gateway {

inline nlohmann::ordered_json model_loads_json(const model_loads& m) {
  return {{"phase", name_of(m.phase)},      {"loads", m.loads},
          {"failures", m.failures},         {"evictions", m.evictions},
          {"idle_unloads", m.idle_unloads}, {"load_seconds", m.load_seconds},
          {"keep_alive_ms", m.keep_alive},  {"idle_since_ms", m.idle_since}};
}

} // namespace baton::gateway
