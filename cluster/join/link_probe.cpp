#include "cluster/join/link_probe.hpp"

#include "cluster/bus/bus_zmq_rpc.hpp"

#include <algorithm>
#include <limits>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds probe_patience{3000};
constexpr int short_requests = 8, long_requests = 4; // the fastest of each counts

// The shortest of `count` round trips; none if an answer has the wrong size.
std::optional<double> fastest(rpc_client& client, const link_request& r, int count) {
  using clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    const auto began = clock::now();
    const auto answer = client.call(text_of(r), probe_patience);
    if (!answer || answer->size() != r.bytes)
      return std::nullopt;
    least = std::min(least, std::chrono::duration<double>(clock::now() - began).count());
  }
  return least;
}

} // namespace

link_speed measure_link(const std::string& server, const key_pair& own, const std::string& node,
                        const std::string& token) {
  auto client = rpc_client::open(server, own);
  if (!client)
    return {};
  link_request r{node, token, 1};
  if (!fastest(*client, r, 1)) // includes the handshake
    return {};
  const auto round_trip = fastest(*client, r, short_requests);
  r.bytes = link_bytes_max;
  const auto whole = fastest(*client, r, long_requests);
  if (!round_trip || !whole)
    return {};
  const double sending = std::max(*whole - *round_trip, *whole / 2); // clocks are coarse
  return {*round_trip, static_cast<double>(r.bytes) / sending};
}

} // namespace baton::cluster
