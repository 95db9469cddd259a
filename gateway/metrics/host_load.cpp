#include "gateway/metrics/host_load.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

std::string text_of_file(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Removes the next number from a line.
std::optional<std::uint64_t> take_number(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  std::uint64_t value = 0;
  const auto [at, ec] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (ec != std::errc{}) {
    return std::nullopt;
  }
  line.remove_prefix(static_cast<std::size_t>(at - line.data()));
  return value;
}

double share(double part, double all) {
  return all > 0 ? 100 * part / all : 0;
}

} // namespace

std::optional<cpu_ticks> parse_cpu_ticks(std::string_view stat) {
  constexpr std::string_view lead = "cpu ";
  if (!stat.starts_with(lead)) {
    return std::nullopt;
  }
  auto line = stat.substr(lead.size(), stat.find('\n') - lead.size());
  constexpr int idle_field = 3, wait_field = 4, fields = 8; // guests are counted in user's
  cpu_ticks out;
  for (int i = 0; i < fields; ++i) {
    const auto n = take_number(line);
    if (!n) {
      return i > wait_field ? std::optional(out) : std::nullopt;
    }
    out.all += *n;
    out.busy += i == idle_field || i == wait_field ? 0 : *n;
  }
  return out;
}

std::optional<std::uint64_t> parse_memory_kib(std::string_view meminfo, std::string_view name) {
  for (std::size_t begin = 0; begin < meminfo.size();) {
    const auto end = std::min(meminfo.find('\n', begin), meminfo.size());
    auto line = meminfo.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      line.remove_prefix(name.size() + 1);
      return take_number(line);
    }
  }
  return std::nullopt;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

host_load host_reader::read() {
  host_load out;
  if (const auto now = parse_cpu_ticks(text_of_file("/proc/stat"))) {
    const auto then = std::exchange(before_, *now);
    if (then.all > 0 && now->all > then.all && now->busy >= then.busy) {
      out.cpu_percent = share(static_cast<double>(now->busy - then.busy),
                              static_cast<double>(now->all - then.all));
    }
  }
  const auto memory = text_of_file("/proc/meminfo");
  const auto total = parse_memory_kib(memory, "MemTotal");
  const auto available = parse_memory_kib(memory, "MemAvailable");
  if (total && available && *available <= *total) {
    constexpr double kib_of_mib = 1024;
    out.memory_used_mib = static_cast<double>(*total - *available) / kib_of_mib;
    out.memory_available_mib = static_cast<double>(*available) / kib_of_mib;
    out.memory_percent =
        share(static_cast<double>(*total - *available), static_cast<double>(*total));
  }
  struct statvfs disk {};
  if (::statvfs("/", &disk) == 0 && disk.f_bfree <= disk.f_blocks) {
    constexpr double gib = 1u << 30;
    const auto bytes = [&](auto blocks) {
      return static_cast<double>(blocks) * static_cast<double>(disk.f_frsize);
    };
    const auto used = bytes(disk.f_blocks - disk.f_bfree);
    out.disk_used_gib = used / gib;
    out.disk_available_gib = bytes(disk.f_bavail) / gib;
    out.disk_percent = share(used, used + bytes(disk.f_bavail));
  }
  return out;
}

} // namespace baton::gateway
