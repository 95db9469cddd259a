// Runs what nodes.toml says starts a node's `cluster join` on its machine (ssh or any other
// command), and again when it has ended. That it runs says nothing of the node: whoever joins does.
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
  // From the thread that waits for the command: it ended, with the end of what it said.
  using told = std::function<void(const std::string& node, const std::string& why)>;

  explicit node_launcher(run_dir dir, told ended)
      : dir_(std::move(dir)), ended_(std::move(ended)) {}
  ~node_launcher();

  // From now on keeps `launch` followed by `cluster join` running. It finds the token, if there is
  // one, as the first line of its input, where nobody else sees it. Errors: io_failed.
  result<void> keep(const std::string& node, const std::string& launch, const std::string& desk,
                    const std::string& token);
  // It is started with this desk from its next start on.
  void change_desk(const std::string& node, const std::string& desk);
  // It is not kept running any more.
  void drop(const std::string& node);
  // Starts what is due.
  void tick(clock::time_point now);

private:
  struct one {
    std::string launch;
    std::string desk;
    std::int32_t pid = 0; // 0: it does not run
    clock::time_point due{};
    std::chrono::milliseconds wait = launch_again_min;
    clock::time_point began{};
    bool is_dropped = false; // forgotten when it has ended
  };
  std::string command_of(const std::string& node, const one& what) const;
  void start(const std::string& node, one& what, clock::time_point now);
  void on_end(const std::string& node, const child_end& how);

  run_dir dir_;
  told ended_;
  std::mutex mutex_;
  bool is_stopping_ = false;
  std::map<std::string, one> all_;
  child_watch watch_; // last: its thread calls on_end
};

} // namespace baton::cluster
