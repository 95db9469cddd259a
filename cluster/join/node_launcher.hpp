// Runs the command of nodes.toml that starts `cluster join` on a node's machine (ssh or any other),
// and restarts it when it ends. Only the join itself, not this command, shows the node's state.
#pragma once

#include "cluster/process/child.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace baton::cluster {

inline constexpr std::chrono::milliseconds launch_again_min{1000};
inline constexpr std::chrono::milliseconds launch_again_max{30'000};

class node_launcher {
public:
  using clock = std::chrono::steady_clock;
  // Called from the watching thread when the command has ended; `why` is its last output.
  using end_callback = std::function<void(const std::string& node, const std::string& why)>;

  explicit node_launcher(run_dir dir, end_callback ended)
      : dir_(std::move(dir)), ended_(std::move(ended)) {}
  ~node_launcher();

  // Keeps `launch` followed by `cluster join` running. The command reads the token, if any, from
  // its first line of input, where no other user can see it. Errors: io_failed.
  result<void> keep(const std::string& node, const std::string& launch, const std::string& server,
                    const std::string& token);
  // Uses this server from the next start on.
  void change_server(const std::string& node, const std::string& server);
  // Stops restarting it.
  void drop(const std::string& node);
  // Starts commands that are due.
  void tick(clock::time_point now);

private:
  struct one {
    std::string launch;
    std::string server;
    std::int32_t pid = 0; // 0: not running
    clock::time_point due{};
    std::chrono::milliseconds wait = launch_again_min;
    clock::time_point began{};
    bool is_dropped = false; // removed when it has ended
  };
  std::string command_of(const std::string& node, const one& what) const;
  void start(const std::string& node, one& what, clock::time_point now);
  void on_end(const std::string& node, const child_end& how);

  run_dir dir_;
  end_callback ended_;
  std::mutex mutex_;
  bool is_stopping_ = false;
  std::map<std::string, one> all_;
  child_watch watch_; // last: its thread calls on_end
};

} // namespace baton::cluster
