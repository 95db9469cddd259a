// `cluster down`: asks the root to drain and stop; what it leaves, or what outlived it, is ended by
// its pid file.
#include "cluster/commands.hpp"
#include "cluster/config.hpp"

#include <poll.h>

#include <csignal>
#include <cstdio>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

bool wait_gone(const run_dir& dir, clock::time_point deadline) {
  while (!dir.alive().empty()) {
    if (clock::now() > deadline)
      return false;
    poll(nullptr, 0, 20);
  }
  return true;
}

} // namespace

result<run_dir> find_cluster(const std::string& which) {
  if (std::filesystem::is_regular_file(which)) {
    auto config = load_config(which);
    return config ? run_dir::open(config->run_dir) : result<run_dir>(config.error());
  }
  if (which.find('/') != std::string::npos && std::filesystem::is_directory(which))
    return run_dir::open(which); // of a node that was given --run-dir
  if (!which.empty()) {
    auto path = default_run_dir(which);
    if (!std::filesystem::is_directory(path))
      return fail(errc::not_found, "there is no file and no running cluster '{}'", which);
    return run_dir::open(path);
  }
  std::vector<run_dir> running;
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(default_run_dir("x").parent_path(), failed))
    if (auto dir = run_dir::open(entry.path()); dir && !dir->alive().empty())
      running.push_back(std::move(*dir));
  if (running.empty())
    return fail(errc::not_found, "no cluster is running");
  if (running.size() > 1)
    return fail(errc::conflict, "{} clusters are running: name one, for example '{}'",
                running.size(), running[0].path().filename().string());
  return std::move(running[0]);
}

int command_down(const std::string& which, std::chrono::seconds patience) {
  auto dir = find_cluster(which);
  if (!dir || dir->alive().empty()) {
    std::fprintf(stderr, "%s\n", dir ? "not running" : dir.error().message.c_str());
    return exit_not_running;
  }
  bool has_root = false;
  for (const auto& note : dir->alive())
    if (note.name == "root") {
      has_root = true;
      signal_noted(note, SIGTERM);
    }
  if (has_root && wait_gone(*dir, clock::now() + patience)) {
    std::puts("stopped");
    return 0;
  }
  for (int number : {SIGTERM, SIGKILL}) {
    for (const auto& note : dir->alive())
      signal_noted(note, number);
    if (wait_gone(*dir, clock::now() + std::chrono::seconds(5))) {
      std::puts(has_root ? "stopped (what did not go by itself was ended)"
                         : "stopped (there was no root)");
      return 0;
    }
  }
  for (const auto& note : dir->alive())
    std::fprintf(stderr, "%s (pid %d) cannot be ended\n", note.name.c_str(), note.pid);
  return 1;
}

} // namespace baton::cluster
