#include "cluster/device_check.hpp"

#include "cluster/child.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <set>

namespace baton::cluster {
namespace {

// What `cluster doctor --json` said, behind whatever a library has printed before; empty: nothing.
std::string answer_in(const std::filesystem::path& log) {
  std::ifstream in(log);
  std::string line, last;
  while (std::getline(in, line)) {
    const auto all = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (all.is_array() && !all.empty() && all[0].is_object())
      last = all[0].value("found", "");
  }
  return last;
}

result<void> ask(const device& where, const std::string& text, std::uint32_t ranks,
                 const run_dir& dir) {
  const auto log = dir.log("device-check");
  std::error_code ec;
  std::filesystem::remove(log, ec); // what an earlier one said is no answer
  launch what{"/proc/self/exe",
              {"cluster", "doctor", "--json", "--device", text, "--ranks", std::to_string(ranks)},
              log};
  auto ended = std::make_shared<std::promise<child_end>>();
  child_watch watch;
  const auto pid =
      watch.start(what, [ended](std::int32_t, const child_end& how) { ended->set_value(how); });
  if (!pid)
    return pid.error();
  auto end = ended->get_future();
  if (end.wait_for(device_answer_max) != std::future_status::ready) {
    watch.signal(*pid, SIGKILL);
    return fail(errc::start_failed, "device {} has not answered within {} s: see {}", text,
                device_answer_max.count(), log.string());
  }
  const auto how = end.get();
  if (how.how == child_end::way::exit && how.number == 0)
    return {};
  const auto said = answer_in(log);
  return fail(errc::start_failed, "device {}: {} ({})", text,
              said.empty() ? fmt::format("{}, see {}", how.text(), log.string()) : said,
              fix_of(where));
}

} // namespace

const char* fix_of(const device& where) noexcept {
  return where.engine == "torch" ? "./up --gpu builds and installs it" : "docs/engines.md";
}

std::uint32_t ranks_max(const cluster_config& config) noexcept {
  std::uint32_t most = 1;
  for (const auto& m : config.models)
    most = std::max(most, m.tensor_parallel_size);
  return most;
}

result<void> check_devices(const cluster_config& config, const node_config& node,
                           const run_dir& dir) {
  std::set<std::string> seen;
  for (const auto& text : node.devices) {
    const auto where = parse_device(text);
    if (!where || where->is_native() || !seen.insert(text).second)
      continue;
    if (auto ok = ask(*where, text, ranks_max(config), dir); !ok)
      return ok.error();
  }
  return {};
}

} // namespace baton::cluster
