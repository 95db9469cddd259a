// Which worker model a name means, for the doors of all APIs: the one place where they look it up.
#pragma once

#include "gateway/board.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// 10 is newer than 9; what is no number is older than those that are.
bool is_newer_version(std::string_view a, std::string_view b);
// In any version.
bool is_worker_model(const board& facts, std::string_view name);
// `version`: empty is the newest. Nothing: there is none such.
std::optional<worker_view> find_worker(const board& facts, std::string_view name,
                                       std::string_view version);
// All versions of it, the newest first.
std::vector<worker_view> versions_of_worker(const board& facts, std::string_view name);
// Whether a process of it takes requests at this gateway.
bool is_ready(const worker_view& of, const snapshot& now) noexcept;

} // namespace baton::gateway
