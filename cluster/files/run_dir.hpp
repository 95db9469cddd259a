// The directory of one running cluster: sockets, logs, and a file per process that says who it is.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// A process as it noted itself. The start time tells it from a later process with the same pid.
struct process_note {
  std::string name;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0; // field 22 of /proc/PID/stat
  epoch_id epoch;                // of this life
};

// For who only looks: a run directory that is made while this lives, and has nothing in it, goes
// with it.
class unused_run_dir {
public:
  explicit unused_run_dir(std::filesystem::path path);
  unused_run_dir(const unused_run_dir&) = delete;
  unused_run_dir& operator=(const unused_run_dir&) = delete;
  ~unused_run_dir();

private:
  std::vector<std::filesystem::path> missing_; // it and those above it; the deepest first
};

class run_dir {
public:
  // Makes the directory, mode 0700, owned by us. Errors: io_failed (also if the path is too long
  // for sockets in it).
  static result<run_dir> open(std::filesystem::path path);
  // One that is there, whoever owns it; makes nothing. Errors: not_found.
  static result<run_dir> existing(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path log(std::string_view name) const;
  // Of a gateway, for all its lives (gateway/auth/crash_record.hpp).
  std::filesystem::path crash_record(std::string_view name) const;
  // The running cluster's own copy of its nodes.toml.
  std::filesystem::path config() const { return path_ / "nodes.toml"; }
  // ipc endpoint of a process that outlives its peers, or of one life of a process.
  std::string endpoint(std::string_view name) const;
  std::string endpoint(std::string_view name, epoch_id life) const;

  // Makes this process the only root here until it ends. Errors: conflict.
  result<void> lock() const;
  // Notes this process under `name`.
  result<void> note(std::string_view name, epoch_id life) const;
  void forget(std::string_view name) const;
  // Which key a process listens with now; "" if it has not noted one.
  void note_key(std::string_view name, const std::string& public_key) const;
  std::string noted_key(std::string_view name) const;
  // Where a worker computes, in words for people; empty: none was noted.
  void note_device(std::string_view name, const std::string& device) const;
  std::string noted_device(std::string_view name) const;
  // The noted processes that are alive.
  std::vector<process_note> alive() const;
  // Removes sockets and crash records of earlier processes. Requires: alive() is empty.
  void clear_past_lives() const;
  // Nobody sees half of the file. Errors: io_failed.
  result<void> write(std::string_view file, const std::string& text) const;
  // Nothing if it is not there.
  std::optional<std::string> read(std::string_view file) const;

private:
  std::filesystem::path path_;
};

// A pidfd of the noted process, for the caller to close; -1 if it is gone. Never of a stranger with
// a reused pid: the start time is compared once the pidfd is open.
int open_noted(const process_note& note);

// Sends the noted process a signal, if it is there.
void signal_noted(const process_note& note, int number);

// The noted process's files of memory (memfd) whose name ends with `suffix`, opened anew to be
// read, for the caller to close. None of what cannot be opened; closed on exec.
std::vector<int> open_memory_of(const process_note& note, std::string_view suffix);

// The last line of a log that is not empty, U+FFFD for what is no UTF-8; nothing if there is none.
std::string last_line(const std::filesystem::path& log);

} // namespace baton::cluster
