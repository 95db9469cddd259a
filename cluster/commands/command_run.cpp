// `cluster run MODEL`: a cluster of one model without a nodes.toml, and a conversation with it.
#include "cluster/bus/reach.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/commands/launch_fit.hpp"
#include "cluster/commands/model_download.hpp"
#include "cluster/commands/status_line.hpp"
#include "cluster/config/config.hpp"
#include "cluster/config/imported/model_launch.hpp"
#include "cluster/files/exit_status.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/process/child.hpp"
#include "cluster/roles/process.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::string_view loopback = "127.0.0.1";
constexpr std::uint16_t http_port_default = 8000, zmq_port_behind_http = 2;
constexpr std::uint16_t ports_tried_max = 100, port_max = 65535;
constexpr std::chrono::milliseconds progress_look_interval{10};
constexpr std::chrono::seconds stop_patience_max{30};
constexpr std::string_view progress_log = "run.log";

// `first`, or the next port above it that is free on loopback. Errors: address_in_use.
result<std::uint16_t> port_from(std::uint16_t first) {
  for (std::uint16_t i = 0; i < ports_tried_max; ++i) {
    const auto port = static_cast<std::uint16_t>(first + i);
    if (check_port_is_free(std::string(loopback), port))
      return port;
  }
  return fail(errc::address_in_use, "no port from {} to {} is free on {}", first,
              first + ports_tried_max - 1, loopback);
}

result<model_launch> launch_of(const run_options& options) {
  model_launch all;
  all.model = options.model;
  all.name = options.name;
  all.device = options.device;
  all.max_model_len = options.max_model_len;
  const bool is_given = options.port != 0;
  const auto http = is_given ? result<std::uint16_t>(static_cast<std::uint16_t>(options.port))
                             : port_from(http_port_default);
  if (!http)
    return http.error();
  const auto zmq = port_from(static_cast<std::uint16_t>(
      std::min(*http, static_cast<std::uint16_t>(port_max - ports_tried_max)) +
      zmq_port_behind_http));
  if (!zmq)
    return zmq.error();
  all.http = fmt::format("{}:{}", loopback, *http);
  all.zmq = fmt::format("tcp://{}:{}", loopback, *zmq);
  return all;
}

// What `cluster up --json` has written so far.
class progress_reader {
public:
  explicit progress_reader(const std::filesystem::path& file) : in_(file) {}
  // The next complete line that is JSON; null: none yet.
  std::optional<nlohmann::json> next() {
    for (;;) {
      const auto at = in_.tellg();
      std::string line;
      if (!std::getline(in_, line) || in_.eof()) {
        in_.clear();
        in_.seekg(at);
        return std::nullopt;
      }
      auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (event.is_object())
        return event;
    }
  }

private:
  std::ifstream in_;
};

// `cluster up` in a process of its own, because ^C at the terminal must not reach it.
class served_model {
public:
  result<void> start(const std::filesystem::path& config) {
    const auto log = config.parent_path() / progress_log;
    std::error_code ignored;
    std::filesystem::remove(log, ignored);
    auto pid =
        children_.start({"/proc/self/exe", {"cluster", "up", config.string(), "--json"}, log},
                        [this](std::int32_t, const child_end& how) {
                          end_ = how.text();
                          has_ended_ = true;
                        });
    if (!pid)
      return pid.error();
    pid_ = *pid;
    progress_.emplace(log);
    return {};
  }

  // Waits until it serves. Errors: what `cluster up` reported; cancelled: ^C or SIGTERM.
  result<void> wait_ready(status_line& shown) {
    for (;;) {
      const bool is_over = has_ended_;
      while (const auto event = progress_->next()) {
        const auto kind = text_member(*event, "event");
        if (kind == "ready")
          return {};
        if (kind == "error")
          return fail(errc::start_failed, "{}", text_member(*event, "message"));
        if (kind == "node" && !text_member(*event, "reason").empty())
          shown.show(
              fmt::format("{}: {}", text_member(*event, "name"), text_member(*event, "reason")));
      }
      if (is_over)
        return fail(errc::start_failed, "`cluster up` ended: {}", end_);
      if (wait_for_end(progress_look_interval) != 0)
        return fail(errc::cancelled, "interrupted");
    }
  }

  // Drains it; what has not ended in time is killed.
  void stop() {
    if (pid_ == 0)
      return;
    children_.signal(pid_, SIGTERM);
    const auto until = clock::now() + stop_patience_max;
    while (!has_ended_ && clock::now() < until)
      usleep(std::chrono::microseconds(progress_look_interval).count());
    if (!has_ended_)
      children_.signal(pid_, SIGKILL);
    pid_ = 0;
  }
  ~served_model() { stop(); }

private:
  std::atomic<bool> has_ended_{false};
  std::string end_; // written before has_ended_
  std::int32_t pid_ = 0;
  std::optional<progress_reader> progress_;
  child_watch children_; // last: its thread uses the members above
};

int talk(const run_options& options, const model_launch& what, const std::string& shown) {
  auto chat = options.chat;
  chat.endpoint = what.zmq;
  chat.model = what.name;
  return chat_at(std::move(chat), shown);
}

} // namespace

int command_run(const run_options& given) {
  auto options = given;
  auto model = find_or_download(options.model.string(), options.pull, hub_settings_here());
  if (!model)
    return refuse_start(model.error());
  if (is_directory_of_models(model->path))
    return refuse_start(fail(errc::bad_config,
                             "{} is a directory of models: `cluster up {}` serves all of them",
                             model->path.string(), options.model.string()));
  options.model = std::move(model->path);
  if (options.name.empty())
    options.name = std::move(model->name);
  const auto& name = options.name;
  if (!options.print_config && !options.serve) {
    if (const auto running = find_cluster(cluster_name_of(name))) {
      auto chat = options.chat;
      chat.which = cluster_name_of(name);
      return command_chat(chat);
    }
  }
  const auto what = launch_of(options);
  if (!what)
    return refuse_start(what.error());
  const auto text = fitted_config_of(*what);
  if (!text)
    return refuse_start(text.error());
  if (options.print_config) {
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  const auto config = store_launch(*text, cluster_name_of(what->name));
  if (!config)
    return refuse_start(config.error());
  if (options.serve)
    return command_up({*config, false});
  served_model served;
  status_line shown;
  shown.show("loading " + what->name);
  if (auto ok = served.start(*config); !ok)
    return refuse_start(ok.error());
  const auto ready = served.wait_ready(shown);
  shown.clear();
  if (!ready)
    return refuse_start(ready.error());
  return talk(options, *what, fmt::format("OpenAI's API: http://{}/v1", what->http));
}

} // namespace baton::cluster
