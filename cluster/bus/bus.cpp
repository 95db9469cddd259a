#include "cluster/bus/bus.hpp"

namespace baton::cluster {

std::string_view name_of(sent s) noexcept {
  switch (s) {
  case sent::ok:
    return "ok";
  case sent::back_pressure:
    return "back_pressure";
  case sent::down:
    return "down";
  case sent::unknown_peer:
    return "unknown_peer";
  case sent::too_large:
    return "too_large";
  }
  return "unknown";
}

} // namespace baton::cluster
