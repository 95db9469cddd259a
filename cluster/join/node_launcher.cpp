#include "cluster/join/node_launcher.hpp"

#include <csignal>

namespace baton::cluster {
namespace {

std::string log_name(const std::string& node) {
  return "launch-" + node;
}

std::string token_name(const std::string& node) {
  return "token-" + node;
}

// Quotes a text for a shell.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text)
    all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

} // namespace

node_launcher::~node_launcher() {
  std::lock_guard lock(mutex_);
  is_stopping_ = true;
  for (const auto& [node, what] : all_)
    if (what.pid != 0)
      watch_.signal(what.pid, SIGTERM);
}

result<void> node_launcher::keep(const std::string& node, const std::string& launch,
                                 const std::string& server, const std::string& token) {
  if (auto ok = dir_.write(token_name(node), token + "\n"); !ok)
    return ok;
  std::lock_guard lock(mutex_);
  auto& what = all_[node];
  what.launch = launch;
  what.server = server;
  what.is_dropped = false;
  return {};
}

void node_launcher::change_server(const std::string& node, const std::string& server) {
  std::lock_guard lock(mutex_);
  if (const auto what = all_.find(node); what != all_.end())
    what->second.server = server;
}

void node_launcher::drop(const std::string& node) {
  std::lock_guard lock(mutex_);
  const auto what = all_.find(node);
  if (what == all_.end())
    return;
  what->second.is_dropped = true;
  if (what->second.pid == 0)
    all_.erase(what);
}

std::string node_launcher::command_of(const std::string& node, const one& what) const {
  const auto file = dir_.path() / token_name(node);
  return fmt::format("exec < {}; exec {} cluster join {} --node {} --token -",
                     quoted(file.string()), what.launch, what.server, node);
}

void node_launcher::start(const std::string& node, one& what, clock::time_point now) {
  launch child;
  child.program = "/bin/sh";
  child.argv = {"sh", "-c", command_of(node, what)};
  child.log = dir_.log(log_name(node));
  what.began = now;
  auto pid =
      watch_.start(child, [this, node](std::int32_t, const child_end& how) { on_end(node, how); });
  if (pid)
    what.pid = *pid;
  else
    what.due = now + what.wait;
}

void node_launcher::tick(clock::time_point now) {
  std::lock_guard lock(mutex_);
  for (auto& [node, what] : all_)
    if (what.pid == 0 && now >= what.due && !is_stopping_)
      start(node, what, now);
}

void node_launcher::on_end(const std::string& node, const child_end& how) {
  constexpr std::size_t why_max = 1024; // a reason, not a log
  const auto why = last_line(dir_.log(log_name(node))).substr(0, why_max);
  {
    std::lock_guard lock(mutex_);
    auto& what = all_.at(node);
    if (what.is_dropped) {
      all_.erase(node);
      return;
    }
    const auto now = clock::now();
    what.pid = 0;
    // A command that ran for a while did its work: the back-off starts anew.
    what.wait = now - what.began > launch_again_max ? launch_again_min
                                                    : std::min(what.wait * 2, launch_again_max);
    what.due = now + what.wait;
    if (is_stopping_)
      return;
  }
  ended_(node, fmt::format("its launch command has ended ({}){}{}", how.text(),
                           why.empty() ? "" : ": ", why));
}

} // namespace baton::cluster
