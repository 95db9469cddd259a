// How often each supervisor of the tree restarts a dead child before it gives up. The policy itself
// is runtime/schedule/tickets/retry_policy.hpp.
#pragma once

#include "runtime/schedule/tickets/retry_policy.hpp"

namespace baton::actors {

using time_point = std::chrono::steady_clock::time_point;

// More restarts within the period are a crash loop.
using restart_intensity = schedule::retry_intensity;

// The limits of each supervisor: more patient the closer a process is to the streams.
inline constexpr restart_intensity gateway_intensity{10, std::chrono::seconds(60)};
inline constexpr restart_intensity head_intensity{5, std::chrono::seconds(60)};
inline constexpr restart_intensity agent_intensity{3, std::chrono::seconds(300)};
inline constexpr restart_intensity pipeline_intensity{5, std::chrono::seconds(30)};
// A handler's crash on a request does not count against it: two crashes quarantine the request.
inline constexpr restart_intensity worker_intensity{20, std::chrono::seconds(60)};

// An incarnation that was ready for this long counts as a success.
inline constexpr std::chrono::milliseconds settled_after{2000};

} // namespace baton::actors
