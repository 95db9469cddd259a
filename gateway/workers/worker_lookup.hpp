// Finds a worker model by its name and version, for all APIs.
#pragma once

#include "gateway/state/gateway_state.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// 10 is newer than 9; any number is newer than a version that is not a number.
bool is_newer_version(std::string_view a, std::string_view b);
// Whether requests without a version prefer `a`, a worker_model or worker_view.
template <class Version>
bool goes_ahead(const Version& a, const Version& b) {
  return a.is_default != b.is_default ? a.is_default : is_newer_version(a.version, b.version);
}
// In any version.
bool is_worker_model(const gateway_state& facts, std::string_view name);
// An empty `version` means the chosen version, else the newest. Empty: not found.
std::optional<worker_view> find_worker(const gateway_state& facts, std::string_view name,
                                       std::string_view version);
// All its versions, the preferred one first.
std::vector<worker_view> versions_of_worker(const gateway_state& facts, std::string_view name);
// Whether a process of it accepts requests at this gateway.
bool is_ready(const worker_view& of, const snapshot& now) noexcept;

} // namespace baton::gateway
