// The directory of one running cluster: sockets, logs, and an identity file per process.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// A process records itself. A later process with its pid has another start time.
struct process_record {
  std::string name;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0; // field 22 of /proc/PID/stat
  incarnation_id incarnation;    // incarnation
};

// For commands that only look: removes a run directory that was created during its lifetime and is
// still empty.
class unused_run_dir {
public:
  explicit unused_run_dir(std::filesystem::path path);
  unused_run_dir(const unused_run_dir&) = delete;
  unused_run_dir& operator=(const unused_run_dir&) = delete;
  ~unused_run_dir();

private:
  std::vector<std::filesystem::path> missing_; // with missing parents, deepest first
};

class run_dir {
public:
  // Creates the directory, mode 0700, owned by us. Errors: io_failed (also if the path is too long
  // for sockets in it).
  static result<run_dir> open(std::filesystem::path path);
  // An existing directory of any owner; creates nothing. Errors: not_found.
  static result<run_dir> existing(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path log(std::string_view name) const;
  // Crash record of a gateway, shared by all its incarnations (gateway/auth/crash_record.hpp).
  std::filesystem::path crash_record(std::string_view name) const;
  // The running cluster's own copy of its nodes.toml.
  std::filesystem::path config() const { return path_ / "nodes.toml"; }
  // ipc endpoint of a process that outlives its peers, or of one incarnation of a process.
  std::string endpoint(std::string_view name) const;
  std::string endpoint(std::string_view name, incarnation_id incarnation) const;

  // Makes this process the only root here until it ends. Errors: conflict.
  result<void> lock() const;
  // Records this process under `name`.
  result<void> record(std::string_view name, incarnation_id incarnation) const;
  void forget(std::string_view name) const;
  // The public key that a process listens with now; "" if none is recorded.
  void record_key(std::string_view name, const std::string& public_key) const;
  std::string recorded_key(std::string_view name) const;
  // The device of a worker, as text for people; empty if none is recorded.
  void record_device(std::string_view name, const std::string& device) const;
  std::string recorded_device(std::string_view name) const;
  // The recorded processes that are alive.
  std::vector<process_record> alive() const;
  // Removes sockets and crash records of earlier processes. Requires: alive() is empty.
  void remove_stale_files() const;
  // Atomic: readers never see a partial file. Errors: io_failed.
  result<void> write(std::string_view file, const std::string& text) const;
  // Nothing if the file does not exist.
  std::optional<std::string> read(std::string_view file) const;

private:
  std::filesystem::path path_;
};

// A pidfd of the recorded process, which the caller closes; -1 if the process is gone. The start
// time is compared after the open, so a reused pid is never returned.
int open_recorded(const process_record& record);

// Sends a signal to the recorded process, if it is alive.
void signal_recorded(const process_record& record, int number);

// Opens the recorded process's memfds whose name ends with `suffix` for reading; the caller closes
// them. Skips files that cannot be opened. Closed on exec.
std::vector<int> open_memory_of(const process_record& record, std::string_view suffix);

// The last non-empty line of a log, U+FFFD for invalid UTF-8; empty if there is none.
std::string last_line(const std::filesystem::path& log);

} // namespace baton::cluster
