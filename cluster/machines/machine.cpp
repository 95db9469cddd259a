#include "cluster/machines/machine.hpp"

#include "runtime/cpu/forward/bandwidth.hpp"

#include <nlohmann/json.hpp>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

namespace baton::cluster {
namespace {

constexpr std::size_t cores_max = 4096; // Linux's CONFIG_NR_CPUS goes to 8192, CPU_SETSIZE to 1024

constexpr double read_gb_s_max = 1e6;
constexpr double round_trip_seconds_max = 60, bytes_per_second_max = 1e15;
constexpr int probe_rounds = 3; // the fastest counts, the others were disturbed

// "0-1", "0,32": whether an earlier core shares this one's physical core. No if there is no file.
bool is_sibling(std::uint32_t core, const std::set<std::uint32_t>& earlier) {
  std::ifstream list("/sys/devices/system/cpu/cpu" + std::to_string(core) +
                     "/topology/thread_siblings_list");
  std::uint32_t first = 0;
  for (char separator = ','; list >> first; list >> separator) {
    auto last = first;
    if (list.peek() == '-')
      list >> separator >> last;
    const auto at = earlier.lower_bound(first);
    if (at != earlier.end() && *at <= last)
      return true;
  }
  return false;
}

std::optional<std::vector<std::uint32_t>> numbers_in(const nlohmann::json& list) {
  if (!list.is_array() || list.size() > cores_max)
    return std::nullopt;
  std::vector<std::uint32_t> numbers;
  for (const auto& n : list) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() >= cores_max)
      return std::nullopt;
    numbers.push_back(n.get<std::uint32_t>());
  }
  return numbers;
}

std::optional<read_speed> read_speed_in(const nlohmann::json& facts) {
  const auto list = facts.value("read_gb_s", nlohmann::json());
  if (!list.is_array() || list.size() != 2 || !list[0].is_number() || !list[1].is_number())
    return std::nullopt;
  const read_speed speed{list[0].get<double>(), list[1].get<double>()};
  const auto is_one = [](double gb_s) { return gb_s >= 0 && gb_s < read_gb_s_max; };
  return is_one(speed.one_thread) && is_one(speed.all_cores) ? std::optional(speed) : std::nullopt;
}

// Records of an older build have no link.
std::optional<link_speed> link_speed_in(const nlohmann::json& facts) {
  const auto link = facts.value("link", nlohmann::json());
  if (link.is_null())
    return link_speed{};
  if (!link.is_array() || link.size() != 2 || !link[0].is_number() || !link[1].is_number())
    return std::nullopt;
  const link_speed speed{link[0].get<double>(), link[1].get<double>()};
  return speed.round_trip_seconds >= 0 && speed.round_trip_seconds < round_trip_seconds_max &&
                 speed.bytes_per_second >= 0 && speed.bytes_per_second < bytes_per_second_max
             ? std::optional(speed)
             : std::nullopt;
}

} // namespace

std::vector<std::uint32_t> machine_facts::physical_cores() const {
  const std::set<std::uint32_t> shared(siblings.begin(), siblings.end());
  std::vector<std::uint32_t> own;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(own),
               [&](std::uint32_t core) { return !shared.contains(core); });
  return own;
}

machine_facts facts_of_this_machine() {
  machine_facts facts;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed))
        facts.cores.push_back(core);
  std::set<std::uint32_t> earlier;
  for (const auto core : facts.cores) {
    if (is_sibling(core, earlier))
      facts.siblings.push_back(core);
    earlier.insert(core);
  }
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:")
      facts.memory_available_bytes = kib * 1024;
    meminfo.ignore(256, '\n');
  }
  obey(limits_of_this_cgroup(), facts);
  return facts;
}

void obey(const cgroup_limits& limits, machine_facts& facts) {
  if (const auto left = limits.memory_available_bytes)
    facts.memory_available_bytes = std::min(facts.memory_available_bytes, *left);
  if (!limits.cpus || facts.cores.empty())
    return;
  const auto most = static_cast<std::size_t>(std::max(1.0, std::ceil(*limits.cpus)));
  facts.cores.resize(std::min(facts.cores.size(), most));
  std::erase_if(facts.siblings, [&](std::uint32_t core) { return core > facts.cores.back(); });
}

machine_facts measured_facts_of_this_machine() {
  auto facts = facts_of_this_machine();
  const auto fastest = [](std::uint32_t threads) {
    const auto measured = cpu::measure_read_bandwidth(threads, probe_rounds);
    return measured ? *std::max_element(measured->begin(), measured->end()) : 0.0;
  };
  facts.reads = {fastest(1), fastest(static_cast<std::uint32_t>(facts.physical_cores().size()))};
  return facts;
}

nlohmann::json json_of(const machine_facts& facts) {
  return {{"cores", facts.cores},
          {"siblings", facts.siblings},
          {"read_gb_s", {facts.reads.one_thread, facts.reads.all_cores}},
          {"link", {facts.link.round_trip_seconds, facts.link.bytes_per_second}},
          {"memory_available_bytes", facts.memory_available_bytes}};
}

std::optional<machine_facts> machine_from(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("cores") || !json.contains("siblings") ||
      !json.contains("memory_available_bytes") ||
      !json["memory_available_bytes"].is_number_unsigned())
    return std::nullopt;
  auto cores = numbers_in(json["cores"]);
  auto siblings = numbers_in(json["siblings"]);
  if (!cores || cores->empty() || !siblings)
    return std::nullopt;
  const auto reads = read_speed_in(json);
  const auto link = link_speed_in(json);
  if (!reads || !link)
    return std::nullopt;
  return machine_facts{.cores = std::move(*cores),
                       .memory_available_bytes =
                           json["memory_available_bytes"].get<std::uint64_t>(),
                       .siblings = std::move(*siblings),
                       .reads = *reads,
                       .link = *link};
}

} // namespace baton::cluster
