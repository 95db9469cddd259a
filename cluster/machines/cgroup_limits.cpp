#include "cluster/machines/cgroup_limits.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace baton::cluster {
namespace {

constexpr std::string_view unified = "0::"; // the line of cgroup v2

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt; // "max" is no number
}

// A file of lines "KEY VALUE".
std::uint64_t value_in(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string name;
  std::uint64_t value = 0;
  while (in >> name >> value)
    if (name == key)
      return value;
  return 0;
}

// "QUOTA PERIOD" in microseconds, or "max PERIOD".
std::optional<double> cpus_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  double quota = 0, period = 0;
  return in >> quota >> period && period > 0 ? std::optional(quota / period) : std::nullopt;
}

template <class T>
void lower(std::optional<T>& limit, std::optional<T> other) {
  if (other)
    limit = std::min(limit.value_or(*other), *other);
}

std::optional<std::uint64_t> memory_left(const std::filesystem::path& group) {
  const auto most = number_in(group / "memory.max");
  if (!most)
    return std::nullopt;
  const auto current = number_in(group / "memory.current").value_or(0);
  const auto cache = value_in(group / "memory.stat", "inactive_file");
  const auto used = current - std::min(current, cache);
  return *most - std::min(*most, used);
}

} // namespace

cgroup_limits limits_of_cgroup(std::string_view membership, const std::filesystem::path& mount) {
  cgroup_limits limits;
  const auto line = membership.find(unified);
  if (line == std::string_view::npos || (line != 0 && membership[line - 1] != '\n'))
    return limits;
  auto path = membership.substr(line + unified.size());
  path = path.substr(0, path.find('\n'));
  const std::filesystem::path below = std::filesystem::path(path).relative_path();
  // A group outside of this namespace is "/../NAME": then the mount is all that is seen.
  const bool is_inside = std::find(below.begin(), below.end(), "..") == below.end();
  auto group = is_inside && !below.empty() ? mount / below : mount;
  for (;; group = group.parent_path()) {
    lower(limits.memory_available_bytes, memory_left(group));
    lower(limits.cpus, cpus_in(group / "cpu.max"));
    if (group == mount || !group.has_relative_path())
      return limits;
  }
}

cgroup_limits limits_of_this_cgroup() {
  std::ifstream in("/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(in), {}};
  return limits_of_cgroup(membership, "/sys/fs/cgroup");
}

} // namespace baton::cluster
