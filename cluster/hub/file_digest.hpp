// The digest of a file that is still being written: SHA-256 as LFS names a blob, or git's SHA-1 of
// one.
#pragma once

#include "schema/result.hpp"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace baton::cluster {

// Called with the bytes read so far; false ends it.
using digest_progress = std::function<bool(std::uint64_t)>;

// A thread reads the file behind its writer, so that little is left to read once all bytes are
// there. The file must outlive it, and must exist when the first bytes are announced.
class file_digest {
public:
  enum class kind : std::uint8_t { sha256, git_sha1 };

  file_digest(std::filesystem::path file, kind what, std::uint64_t bytes);
  file_digest(const file_digest&) = delete;
  file_digest& operator=(const file_digest&) = delete;
  ~file_digest() = default; // ends the thread

  // The first `bytes` bytes of the file are written and do not change any more.
  void extend(std::uint64_t bytes);
  // Lower-case hex digits, once all bytes are read. Errors: io_failed, cancelled.
  result<std::string> wait(const digest_progress& on);

private:
  void run(const std::stop_token& stop);
  result<std::string> read_all(const std::stop_token& stop);
  // Bytes that may be read now, once there are more than `read`; 0: the thread is to end.
  std::uint64_t wait_for_more(std::uint64_t read, const std::stop_token& stop);

  const std::filesystem::path file_;
  const kind kind_;
  const std::uint64_t bytes_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
  std::optional<result<std::string>> value_;
  std::jthread thread_; // last: uses all members above
};

} // namespace baton::cluster
