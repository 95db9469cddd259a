#include "cluster/machines/machine_links.hpp"

namespace baton::cluster {
namespace {

const link_speed* link_of(const machines& known, const std::string& name) {
  const auto it = known.find(name);
  const bool has_link = name != root_machine && it != known.end() && it->second.link.is_known();
  return has_link ? &it->second.link : nullptr;
}

} // namespace

double way_seconds(const machines& known, const std::string& from, const std::string& to,
                   std::size_t bytes) {
  if (from == to)
    return 0;
  double seconds = 0;
  for (const auto* link : {link_of(known, from), link_of(known, to)})
    if (link)
      seconds += link->round_trip_seconds / 2 + static_cast<double>(bytes) / link->bytes_per_second;
  return seconds;
}

} // namespace baton::cluster
