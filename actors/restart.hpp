// How often each supervisor of the tree starts a dead child again before it gives it up. The
// policy itself is runtime/schedule/retry_policy.hpp.
#pragma once

#include "runtime/schedule/retry_policy.hpp"

namespace baton::actors {

using time_point = std::chrono::steady_clock::time_point;

// More restarts within the period are a crash loop.
using restart_intensity = schedule::retry_intensity;

// What each supervisor of the tree allows: the nearer to the streams, the more patient.
inline constexpr restart_intensity gateway_intensity{10, std::chrono::seconds(60)};
inline constexpr restart_intensity head_intensity{5, std::chrono::seconds(60)};
inline constexpr restart_intensity agent_intensity{3, std::chrono::seconds(300)};
inline constexpr restart_intensity pipeline_intensity{5, std::chrono::seconds(30)};
// What a request makes of a handler is not its fault: two ends are one request's (quarantine).
inline constexpr restart_intensity worker_intensity{20, std::chrono::seconds(60)};

// So long ready, and a life was of use.
inline constexpr std::chrono::milliseconds settled_after{2000};

} // namespace baton::actors
