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
  std::filesystem::path log;     // gets its stdout and stderr, appended
  std::vector<int> files{};      // the child has them as inherited_file and those behind it
};
inline constexpr int inherited_file = 3;

struct child_end {
  // unseen: of a process whose parent is another, who alone is told.
  enum class way : std::uint8_t { exit, signal, unseen };
  way how = way::unseen;
  int number = 0; // of the signal, or the exit status
  // "killed by signal 9 (Killed)", "exit status 1"
  std::string text() const;
};

// SIGKILL for this process when the thread that forked it is gone; at once (exit status 127) if
// that is no longer `parent`. Async-signal-safe.
void die_with(std::int32_t parent);
// A child dies with its parent until it is noted in the run directory, so that none is left which
// nobody knows. From here on it outlives it: the parent's successor finds it by its note.
void outlive_parent(const run_dir& dir, std::string_view name, epoch_id life);

// All children of this process: one thread waits for their ends.
class child_watch {
public:
  using ended = std::function<void(std::int32_t pid, const child_end& how)>;

  child_watch();
  ~child_watch(); // does not touch children that still run

  // Starts a process in a process group of its own (a ^C at the terminal reaches only us), which
  // dies with this one until it says otherwise (outlive_parent). `on_end` is called once, from the
  // waiting thread, when it is gone and reaped. Errors: io_failed.
  result<std::int32_t> start(const launch& what, ended on_end);
  // A child that this process got otherwise: as if it had been started here. Errors: io_failed (it
  // is gone).
  result<std::int32_t> adopt(std::int32_t pid, ended on_end);
  // Any process, by its pidfd, which is closed here.
  void adopt(std::int32_t pid, int pidfd, ended on_end);
  // Nothing happens if it is gone already.
  void signal(std::int32_t pid, int number);

private:
  struct entry {
    int pidfd = -1;
    ended on_end;
  };
  void enter(std::int32_t pid, int pidfd, ended on_end);
  void wait_loop();
  void reap(std::int32_t pid);
  void reap_strangers();
  void wake();

  std::mutex mutex_;
  std::map<std::int32_t, entry> children_;
  int wake_fd_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace baton::cluster
