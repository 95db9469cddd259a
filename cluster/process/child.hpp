// Child processes by pidfd: start, signal, and wait for their end without racing on reused pids.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "schema/result.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace baton::cluster {

struct launch {
  std::filesystem::path program;
  std::vector<std::string> argv; // with argv[0], the name that ps shows
  std::filesystem::path log;     // stdout and stderr are appended to it
  std::vector<int> files{};      // inherited as inherited_file and the numbers after it
};
inline constexpr int inherited_file = 3;

struct child_end {
  // unseen: the process has another parent, so its status is not available.
  enum class way : std::uint8_t { exit, signal, unseen };
  way how = way::unseen;
  int number = 0; // of the signal, or the exit status
  // "killed by signal 9 (Killed)", "exit status 1"
  std::string text() const;
};

// Sends this process SIGKILL when the thread that forked it ends. Exits at once (status 127) if
// that is no longer `parent`. Async-signal-safe.
void die_with(std::int32_t parent);
// A child dies with its parent until it is recorded in the run directory, so no unknown process is
// left behind. From here on it survives: the parent's successor finds it by its record.
void outlive_parent(const run_dir& dir, std::string_view name, incarnation_id incarnation);

// The children of this process; one thread waits for their ends.
class child_watch {
public:
  using ended = std::function<void(std::int32_t pid, const child_end& how)>;

  child_watch();
  ~child_watch(); // running children continue

  // Starts a process in its own process group (^C at the terminal does not reach it). It dies with
  // this process until outlive_parent. `on_end` is called once, on the waiting thread, after the
  // child is reaped. Errors: io_failed.
  result<std::int32_t> start(const launch& what, ended on_end);
  // Watches a child that was started elsewhere like one started here. Errors: io_failed (it has
  // ended).
  result<std::int32_t> adopt(std::int32_t pid, ended on_end);
  // Watches any process by its pidfd, and takes ownership of the pidfd.
  void adopt(std::int32_t pid, int pidfd, ended on_end);
  // No effect if it has ended.
  void signal(std::int32_t pid, int number);

private:
  struct entry {
    int pidfd = -1;
    ended on_end;
  };
  void enter(std::int32_t pid, int pidfd, ended on_end);
  void wait_loop();
  void reap(std::int32_t pid);
  void reap_orphans();
  void wake();

  std::mutex mutex_;
  std::map<std::int32_t, entry> children_;
  int wake_fd_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace baton::cluster
