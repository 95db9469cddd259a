#include "gateway/workers/worker_lookup.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace baton::gateway {

bool is_newer_version(std::string_view a, std::string_view b) {
  const auto number_of = [](std::string_view text) {
    std::int64_t number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  };
  return std::pair(number_of(a), a) > std::pair(number_of(b), b);
}

bool is_worker_model(const gateway_state& facts, std::string_view name) {
  const auto all = facts.worker_views();
  return std::any_of(all.begin(), all.end(), [&](const worker_view& w) { return w.name == name; });
}

std::optional<worker_view> find_worker(const gateway_state& facts, std::string_view name,
                                       std::string_view version) {
  for (auto& one : versions_of_worker(facts, name)) {
    if (version.empty() || one.version == version) {
      return std::move(one);
    }
  }
  return std::nullopt;
}

std::vector<worker_view> versions_of_worker(const gateway_state& facts, std::string_view name) {
  auto all = facts.worker_views();
  std::erase_if(all, [&](const worker_view& w) { return w.name != name; });
  std::stable_sort(all.begin(), all.end(), goes_ahead<worker_view>);
  return all;
}

bool is_ready(const worker_view& of, const snapshot& now) noexcept {
  return of.load->workers > 0 && !now.is_draining;
}

} // namespace baton::gateway
