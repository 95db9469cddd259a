#include "cluster/machines/python_check.hpp"

#include "cluster/files/memory_file.hpp"
#include "cluster/process/child.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <memory>

namespace baton::cluster {
namespace {

constexpr std::string_view worker_package = "baton_worker";
constexpr int env_found_no_program = 127;
constexpr int lacks_what_some_need = 3; // exit status of baton_worker.check
constexpr const char* how_to_install =
    "python3 -m venv ~/workers && ~/workers/bin/pip install sdk/python, and its python3 in the "
    "command (docs/apis/workers/python.md, A Python for workers)";

// For a Python without this check, the last line names the missing module.
std::string last_line_of(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty())
      last = line;
  return last;
}

python_answer answer_of(const child_end& how, const worker_python& python, const std::string& log) {
  if (how.how == child_end::way::exit && how.number == 0) {
    const auto all = python.entries.empty() ? std::string("handlers")
                                            : fmt::format("{}", fmt::join(python.entries, ", "));
    return {true, fmt::format("has what workers need ({})", all), ""};
  }
  const auto output = last_line_of(log);
  if (how.how == child_end::way::exit && how.number == env_found_no_program)
    return {false, output, "apt install python3-venv, then " + std::string(how_to_install)};
  if (output.find("No module named") != std::string::npos)
    return {false, fmt::format("No module named {}", worker_package), how_to_install};
  const bool is_needed = how.how != child_end::way::exit || how.number != lacks_what_some_need;
  return {false, output.empty() ? how.text() : output, "", is_needed};
}

} // namespace

std::string worker_python::text() const {
  return fmt::format("{}", fmt::join(prefix, " "));
}

std::vector<worker_python> pythons_of(std::span<const std::vector<std::string>> commands) {
  std::vector<worker_python> all;
  for (const auto& command : commands) {
    const auto flag = std::find(command.begin(), command.end(), "-m");
    if (flag == command.begin() || command.end() - flag < 2)
      continue;
    const std::string_view module = *(flag + 1);
    const auto dot = module.find('.');
    if (module.substr(0, dot) != worker_package)
      continue;
    const std::vector<std::string> prefix(command.begin(), flag);
    auto known = std::find_if(all.begin(), all.end(),
                              [&](const worker_python& p) { return p.prefix == prefix; });
    if (known == all.end())
      known = all.insert(all.end(), worker_python{prefix, {}});
    if (dot != module.npos)
      known->entries.emplace(module.substr(dot + 1));
  }
  return all;
}

python_answer check_python(const worker_python& python) {
  const auto output = memory_file::create("python-check");
  if (!output)
    return {false, output.error().message, ""};
  const auto log = fmt::format("/proc/self/fd/{}", output->fd());
  launch what{"/usr/bin/env", {"env"}, log};
  what.argv.insert(what.argv.end(), python.prefix.begin(), python.prefix.end());
  what.argv.insert(what.argv.end(), {"-m", std::string(worker_package) + ".check"});
  what.argv.insert(what.argv.end(), python.entries.begin(), python.entries.end());
  auto ended = std::make_shared<std::promise<child_end>>();
  child_watch watch;
  const auto pid =
      watch.start(what, [ended](std::int32_t, const child_end& how) { ended->set_value(how); });
  if (!pid)
    return {false, pid.error().message, ""};
  auto end = ended->get_future();
  if (end.wait_for(python_answer_max) != std::future_status::ready) {
    watch.signal(*pid, SIGKILL);
    return {false, fmt::format("has not answered within {} s", python_answer_max.count()), ""};
  }
  return answer_of(end.get(), python, log);
}

} // namespace baton::cluster
