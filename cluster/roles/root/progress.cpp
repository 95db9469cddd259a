#include "cluster/roles/root/progress.hpp"

#include "cluster/files/json_text.hpp"
#include "cluster/files/run_dir.hpp"
#include "gateway/state/gateway_state.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace baton::cluster {
namespace {

// A gateway reports within this time that it drains, and its number of open requests.
constexpr std::chrono::milliseconds drain_answer_max{1000};

} // namespace

bool takes_requests(const cluster_status& now) {
  return now.phase == phase::ready &&
         std::all_of(now.nodes.begin(), now.nodes.end(),
                     [](const status& s) { return s.role != role::gateway || s.progress >= 1; });
}

progress::progress(const cluster_contexts& all, bool json) : cluster_(all.base), json_(json) {
  if (!json_)
    print(plan_table(all));
}

void progress::print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string progress::log_end(const std::string& name) const {
  return last_line(cluster_.dir.log(name));
}

void progress::show_node(const status& s) {
  auto text = fmt::format("{:<10} {}{}", s.name, gateway::name_of(s.phase),
                          s.reason.empty() ? "" : ": " + s.reason);
  auto& shown = shown_[s.name];
  if (shown == text || s.phase == phase::starting)
    return;
  shown = text;
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  if (json_) {
    nlohmann::ordered_json j{
        {"event", "node"},    {"name", s.name}, {"phase", gateway::name_of(s.phase)},
        {"reason", s.reason}, {"pid", s.pid},   {"restarts", s.restarts},
        {"seconds", seconds}};
    print(json_text(j) + "\n");
    return;
  }
  print(fmt::format("  {:7.3f} s  {}\n", seconds, text));
  if (s.phase == phase::failed)
    if (auto end = log_end(s.name); !end.empty())
      print(fmt::format("             {}\n             (log: {})\n", end,
                        cluster_.dir.log(s.name).string()));
}

void progress::show_ready(const cluster_status& now) {
  if (json_) {
    print(json_text(
              nlohmann::ordered_json{{"event", "ready"}, {"url", now.url}, {"model", now.model}}) +
          "\n");
    return;
  }
  const auto& gateway = cluster_.config.gateway;
  const bool has_keys = !gateway.api_keys.empty();
  const auto page = !gateway.admin.empty() ? fmt::format("web page at http://{}/, ", gateway.admin)
                    : has_keys             ? ""
                                           : "web page at /, ";
  const auto header = has_keys ? "-H 'Authorization: Bearer KEY' " : "";
  const auto paste =
      cluster_.config.models.empty()
          ? fmt::format("curl {}{}/v2/repository/index -X POST", header, now.url)
          : fmt::format("curl -N {}{}/v1/chat/completions -d '{{\"model\":\"{}\",\"stream\":true,"
                        "\"messages\":[{{\"role\":\"user\",\"content\":\"Why is the sky "
                        "blue?\"}}]}}'",
                        header, now.url, now.model);
  print(fmt::format("\nready: {}    ({}^C drains and stops)\n\n  {}\n\n", now.url, page, paste));
}

void progress::show(const cluster_status& now) {
  std::lock_guard lock(mutex_);
  for (const auto& s : now.nodes)
    show_node(s);
  was_ready_ = was_ready_ || now.phase == phase::ready;
  if (!was_shown_ready_ && takes_requests(now)) {
    was_shown_ready_ = true;
    show_ready(now);
  }
  drain_.observe(now.nodes); // here: a waiting thread might look after the gateway is back
  last_ = now;
}

void progress::failed(const error& e, bool json) {
  if (json)
    print(json_text(nlohmann::ordered_json{
              {"event", "error"}, {"code", row_of(e.code).name}, {"message", e.message}}) +
          "\n");
  else
    std::fprintf(stderr, "error: %s\n", e.message.c_str());
}

void progress::draining() {
  {
    std::lock_guard lock(mutex_);
    drain_.begin(last_.nodes);
  }
  if (!json_)
    print("\nstopping: open streams may finish; ^C again cuts them\n");
}

void progress::stopped(const root_end& how) {
  if (json_)
    print(nlohmann::ordered_json{{"event", "stopped"}, {"status", how.status}, {"reason", how.why}}
              .dump() +
          "\n");
  else
    print(how.why.empty() ? "stopped\n" : fmt::format("stopped, not cleanly: {}\n", how.why));
}

bool progress::was_lost_while_draining(process_id process, incarnation_id incarnation) const {
  std::lock_guard lock(mutex_);
  return drain_.has_lost(process, incarnation);
}

std::string progress::failure() const {
  std::lock_guard lock(mutex_);
  if (last_.phase == phase::failed)
    return last_.reason;
  for (const auto& n : last_.nodes) // a failed worker does not change the cluster's phase
    if (n.supervision && n.supervision->has_given_up)
      return fmt::format("{}: {}", n.name, n.reason);
  return "";
}

bool progress::wait_ready(const std::function<bool()>& interrupted) {
  while (!interrupted()) {
    std::lock_guard lock(mutex_);
    if (was_ready_)
      return true;
    if (last_.phase == phase::failed)
      return false;
  }
  std::lock_guard lock(mutex_); // it may have become ready, and shown so, at the last moment
  return was_ready_;
}

std::string progress::wait_drained(std::chrono::milliseconds grace,
                                   const std::function<bool()>& interrupted) {
  using clock = std::chrono::steady_clock;
  const auto began = clock::now();
  bool is_asked_again = false;
  for (;;) {
    const auto waited = clock::now() - began;
    {
      std::lock_guard lock(mutex_);
      const auto now = look_at(last_.nodes);
      if (now.is_over)
        return drain_.loss();
      if ((is_asked_again || waited >= grace) && (now.has_reported || waited >= drain_answer_max))
        return fmt::format("streams were cut {} ({})",
                           is_asked_again ? std::string("because it was asked again")
                                          : fmt::format("after {} ms of grace", grace.count()),
                           now.still_open);
    }
    is_asked_again = interrupted() || is_asked_again;
  }
}

} // namespace baton::cluster
