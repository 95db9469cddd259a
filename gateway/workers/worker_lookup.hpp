// Which worker model a name means, for the doors of all APIs: the one place where they look it up.
#pragma once

#include "gateway/state/board.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// 10 is newer than 9; what is no number is older than those that are.
bool is_newer_version(std::string_view a, std::string_view b);
// Whether requests that name no version go rather to `a`, a worker_model or worker_view.
template <class Version>
bool goes_ahead(const Version& a, const Version& b) {
  return a.is_default != b.is_default ? a.is_default : is_newer_version(a.version, b.version);
}
// In any version.
bool is_worker_model(const board& facts, std::string_view name);
// `version`: empty is the one that was chosen, else the newest. Nothing: there is none such.
std::optional<worker_view> find_worker(const board& facts, std::string_view name,
                                       std::string_view version);
// All versions of it, the one without a name first.
std::vector<worker_view> versions_of_worker(const board& facts, std::string_view name);
// Whether a process of it takes requests at this gateway.
bool is_ready(const worker_view& of, const snapshot& now) noexcept;

} // namespace baton::gateway
