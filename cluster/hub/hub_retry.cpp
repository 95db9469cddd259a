#include "cluster/hub/hub_retry.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>

namespace baton::cluster {
namespace {

constexpr int client_error_status = 400, request_timeout_status = 408, too_many_status = 429,
              server_error_status = 500;

} // namespace

std::optional<std::chrono::seconds> retry_after(const std::string& header,
                                                std::time_t now) noexcept {
  const auto* const last = header.data() + header.size();
  std::int64_t seconds = 0;
  const auto read = std::from_chars(header.data(), last, seconds);
  if (!header.empty() && read.ec == std::errc() && read.ptr == last)
    return std::chrono::seconds(std::max<std::int64_t>(seconds, 0));
  std::tm date{};
  if (strptime(header.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) == nullptr)
    return std::nullopt;
  return std::chrono::seconds(std::max<std::int64_t>(timegm(&date) - now, 0));
}

bool is_transient(const transfer_end& end) noexcept {
  const auto status = end.response.status;
  if (status >= client_error_status)
    return status == request_timeout_status || status == too_many_status ||
           status >= server_error_status;
  return !end.cut.empty() && !end.is_permanent;
}

std::optional<std::chrono::milliseconds>
hub_retry::pause_after(const transfer_end& end, clock::time_point now, std::time_t wall_now) {
  if (!is_transient(end))
    return std::nullopt;
  auto pause = policy_.on_end(now, false);
  if (!pause)
    return std::nullopt;
  const auto asked = retry_after(end.response.header("retry-after"), wall_now);
  if (!asked)
    return pause;
  if (*asked > retry_after_max)
    return std::nullopt;
  return std::max<std::chrono::milliseconds>(*pause, *asked);
}

} // namespace baton::cluster
