#include "cluster/config/cpu_launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <set>

namespace baton::cluster {
namespace {

constexpr std::uint32_t launcher_number_max = 4096; // limit of counts and core numbers
constexpr std::uint32_t latency_cores = 4;          // per process in --latency-mode

struct ignored_option {
  std::string_view option;
  bool has_value;
  std::string_view why;
};
// Options of run_cpu that have no effect here.
constexpr std::array ignored_options{
    ignored_option{"--ninstances", true, "TorchServe sets it itself: the number of workers"},
    ignored_option{"--rank", true, "TorchServe sets it itself: the worker's number"},
    ignored_option{"--multi-instance", false, "workers.count sets the number"},
    ignored_option{
        "--throughput-mode", false,
        "a worker for each NUMA node is workers.count, and cores are shared out in order"},
    ignored_option{"--skip-cross-node-cores", false,
                   "cores are shared out in order: --node-id keeps workers on one NUMA node"},
    ignored_option{"--disable-numactl", false, "numactl is not used: the kernel binds the process"},
    ignored_option{"--disable-taskset", false, "taskset is not used: the kernel binds the process"},
    ignored_option{"--use-default-allocator", false, "it is always used"},
    ignored_option{"--enable-tcmalloc", false,
                   "LD_PRELOAD in the environment of `cluster up` names the library"},
    ignored_option{"--enable-jemalloc", false,
                   "LD_PRELOAD in the environment of `cluster up` names the library"},
    ignored_option{"--disable-iomp", false, "it is always off: torch's own OpenMP is used"},
    ignored_option{"--log-path", true, "each worker has a log in the run directory"},
    ignored_option{"--log-file-prefix", true, "each worker has a log in the run directory"},
    ignored_option{"--module", false, "workers.command sets the program"},
    ignored_option{"-m", false, "workers.command sets the program"},
    ignored_option{"--no-python", false, "workers.command sets the program"},
};

std::optional<std::uint32_t> launcher_number(std::string_view text, std::uint32_t least) {
  std::uint32_t value = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end && value >= least && value < launcher_number_max
             ? std::optional(value)
             : std::nullopt;
}

// Parses "0,1,2".
std::vector<std::uint32_t> launcher_numbers(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const auto number = launcher_number(text.substr(0, end), 0);
    if (!number)
      return {};
    numbers.push_back(*number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

std::vector<std::string> split_args(std::string_view text) {
  std::vector<std::string> args;
  constexpr std::string_view space = " \t";
  for (auto at = text.find_first_not_of(space); at != text.npos;) {
    const auto end = std::min(text.find_first_of(space, at), text.size());
    args.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(space, end);
  }
  return args;
}

// run_cpu also accepts '_' for '-' in options, and values after '='.
class launcher_reader {
public:
  explicit launcher_reader(std::string_view text) {
    for (auto& option : split_args(text)) {
      const auto mark = option.starts_with("--") ? option.find('=') : option.npos;
      auto name = option.substr(0, mark);
      if (name.starts_with("--"))
        std::replace(name.begin(), name.end(), '_', '-');
      args_.push_back(std::move(name));
      if (mark != option.npos)
        args_.push_back(option.substr(mark + 1));
    }
  }

  result<launcher_args> read() {
    while (at_ < args_.size())
      if (auto wrong = take(args_[at_++]))
        return *std::move(wrong);
    if (!made_.how.core_list.empty() && made_.how.cores_per_process == 0)
      return wrong("--core-list", "needs --ncores-per-instance, as run_cpu does");
    return std::move(made_);
  }

private:
  static error wrong(std::string_view option, std::string_view why) {
    return fail(errc::bad_config, "{} {}", option.substr(0, 40), why);
  }
  std::string_view value() { return at_ < args_.size() ? args_[at_++] : std::string_view(); }

  void keep(std::string_view option, std::string_view given = {}) {
    made_.taken.emplace_back(option);
    if (!given.empty())
      made_.taken.emplace_back(given);
  }

  std::optional<error> take(const std::string& option) {
    auto& how = made_.how;
    if (option == "--use-logical-core") {
      how.uses_logical_cores = true;
      keep(option);
    } else if (option == "--latency-mode") {
      how.cores_per_process = latency_cores;
      keep(option);
    } else if (option == "--ncores-per-instance") {
      return take_cores_per_process(option);
    } else if (option == "--node-id") {
      const auto given = value();
      if (!(how.numa_node = launcher_number(given, 0)))
        return wrong(option, "needs the number of a NUMA node");
      keep(option, given);
    } else if (option == "--core-list") {
      const auto given = value();
      how.core_list = launcher_numbers(given);
      const std::set<std::uint32_t> each(how.core_list.begin(), how.core_list.end());
      if (each.empty() || each.size() != how.core_list.size())
        return wrong(option, "needs core numbers, such as 0,1,2");
      keep(option, given);
    } else {
      return ignore(option);
    }
    return std::nullopt;
  }

  std::optional<error> take_cores_per_process(const std::string& option) {
    const auto given = value();
    const auto number = launcher_number(given, 1);
    if (!number)
      return wrong(option, "needs a number of cores");
    if (at_ < args_.size() && launcher_number(args_[at_], 0))
      return wrong(option, "has several numbers: all workers have the same number of cores here");
    made_.how.cores_per_process = *number;
    keep(option, given);
    return std::nullopt;
  }

  std::optional<error> ignore(const std::string& option) {
    const auto* found = std::find_if(ignored_options.begin(), ignored_options.end(),
                                     [&](const ignored_option& w) { return w.option == option; });
    if (found == ignored_options.end())
      return wrong(option, "is not known: torch.backends.xeon.run_cpu has no such option");
    if (found->has_value)
      value();
    made_.notes.push_back(fmt::format("{}: {}", option, found->why));
    return std::nullopt;
  }

  std::vector<std::string> args_;
  std::size_t at_ = 0;
  launcher_args made_;
};

} // namespace

result<launcher_args> parse_launcher_args(std::string_view text) {
  return launcher_reader(text).read();
}

result<std::vector<std::uint32_t>> launcher_cores(const cpu_launcher& how,
                                                  const machine_cores& machine) {
  const auto has = [](const std::vector<std::uint32_t>& all, std::uint32_t core) {
    return std::find(all.begin(), all.end(), core) != all.end();
  };
  for (const auto core : how.core_list)
    if (!has(machine.all, core))
      return fail(errc::bad_config, "--core-list has core {}: this machine has {} for it", core,
                  fmt::join(machine.all, ", "));
  if (!how.core_list.empty())
    return how.core_list;
  auto cores = how.uses_logical_cores ? machine.all : machine.physical;
  if (how.numa_node)
    std::erase_if(cores, [&](std::uint32_t core) { return !has(machine.of_node, core); });
  if (cores.empty())
    return how.numa_node
               ? fail(errc::bad_config,
                      "--node-id {}: this machine has no core of such a NUMA node", *how.numa_node)
               : fail(errc::bad_config, "this machine reports no cores");
  return cores;
}

std::vector<std::uint32_t> cores_of_worker(const cpu_launcher& how,
                                           const std::vector<std::uint32_t>& cores,
                                           std::uint32_t before, std::uint32_t own,
                                           std::uint32_t all) {
  const auto count = static_cast<std::uint32_t>(cores.size());
  const auto each =
      std::min(count, how.cores_per_process > 0 ? how.cores_per_process
                                                : std::max(1u, count / std::max(1u, all)));
  const auto slots = count / each; // for one process each
  std::vector<std::uint32_t> taken;
  for (std::uint32_t i = 0; i < std::min(own, slots); ++i) {
    const auto begin = (before + i) % slots * each;
    const auto first = cores.begin() + begin;
    taken.insert(taken.end(), first, first + each);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

std::vector<std::uint32_t> cores_of_numa_node(std::uint32_t node) {
  std::ifstream list(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
  std::vector<std::uint32_t> cores;
  std::uint32_t first = 0;
  for (char separator = ','; list >> first; list >> separator) {
    auto last = first;
    if (list.peek() == '-')
      list >> separator >> last;
    for (auto core = first; core <= last && core < launcher_number_max; ++core)
      cores.push_back(core);
  }
  return cores;
}

} // namespace baton::cluster
