#include "cluster/files/run_dir.hpp"

#include "cluster/files/proc_stat.hpp"
#include "cluster/files/text_file.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t socket_path_max = 107;    // sun_path less its terminator
constexpr std::size_t socket_name_reserve = 48; // "/shard-1023-1763699999999999.sock"
constexpr std::string_view record_suffix = ".pid";
constexpr std::string_view key_suffix = ".key";
constexpr std::string_view device_suffix = ".device";
constexpr std::string_view socket_suffix = ".sock";
constexpr std::string_view crashes_suffix = ".crashes";
constexpr std::string_view lock_name = "lock";

// Nothing if there is no such process.
std::optional<std::uint64_t> start_ticks_of(std::int32_t pid) {
  const auto fields = stat_fields(fmt::format("/proc/{}/stat", pid), 20);
  if (!fields || fields->front() == "Z") // a zombie has ended
    return std::nullopt;
  return std::stoull((*fields)[19]); // field 22
}

// Replaces invalid UTF-8: logs may hold any bytes, but reasons travel in UTF-8 protocols.
std::string as_utf8(std::string_view bytes) {
  std::string out;
  for (;;) {
    const auto valid = text::utf8_valid_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty())
      return out;
    out += text::replacement_character;
    bytes.remove_prefix(text::utf8_at(bytes, 0).length);
  }
}

} // namespace

int open_recorded(const process_record& record) {
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, record.pid, 0));
  if (fd < 0 || start_ticks_of(record.pid) == record.start_ticks)
    return fd;
  close(fd);
  return -1;
}

void signal_recorded(const process_record& record, int number) {
  const int fd = open_recorded(record);
  if (fd < 0)
    return;
  syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0);
  close(fd);
}

std::vector<int> open_memory_of(const process_record& record, std::string_view suffix) {
  const auto end = fmt::format("{} (deleted)", suffix); // as the system shows a memfd
  std::vector<int> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", record.pid), failed)) {
    const auto name = fs::read_symlink(entry.path(), failed).string();
    if (failed || !name.starts_with("/memfd:") || !name.ends_with(end))
      continue;
    if (const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC); fd >= 0)
      found.push_back(fd);
  }
  if (start_ticks_of(record.pid) == record.start_ticks)
    return found;
  for (const int fd : found) // another process reuses the pid
    close(fd);
  return {};
}

std::string last_line(const fs::path& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      last = std::move(line);
  return as_utf8(last);
}

unused_run_dir::unused_run_dir(fs::path path) {
  std::error_code ec;
  while (path.has_relative_path() && !fs::exists(path, ec)) {
    missing_.push_back(path);
    path = path.parent_path();
  }
}

unused_run_dir::~unused_run_dir() {
  std::error_code ec;
  for (const auto& path : missing_)
    if (fs::is_empty(path, ec) && !ec)
      fs::remove(path, ec);
}

result<run_dir> run_dir::open(fs::path path) {
  std::error_code failed;
  path = fs::absolute(path, failed).lexically_normal();
  if (!path.has_filename()) // "run/"
    path = path.parent_path();
  if (path.string().size() + socket_name_reserve > socket_path_max)
    return fail(errc::io_failed,
                "{}: too long a path for sockets in it ({} bytes at most): set cluster.run_dir",
                path.string(), socket_path_max - socket_name_reserve);
  fs::create_directories(path, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", path.string(), failed.message());
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || info.st_uid != getuid())
    return fail(errc::io_failed, "{}: belongs to another user", path.string());
  fs::permissions(path, fs::perms::owner_all, failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", path.string(), failed.message());
  run_dir dir;
  dir.path_ = std::move(path);
  return dir;
}

result<run_dir> run_dir::existing(const fs::path& path) {
  std::error_code failed;
  run_dir dir;
  dir.path_ = fs::absolute(path, failed).lexically_normal();
  if (!dir.path_.has_filename()) // "run/"
    dir.path_ = dir.path_.parent_path();
  if (!fs::is_directory(dir.path_, failed))
    return fail(errc::not_found, "{}: no such directory", dir.path_.string());
  return dir;
}

fs::path run_dir::crash_record(std::string_view name) const {
  return path_ / fmt::format("{}{}", name, crashes_suffix);
}

fs::path run_dir::log(std::string_view name) const {
  return path_ / fmt::format("{}.log", name);
}

std::string run_dir::endpoint(std::string_view name) const {
  return fmt::format("ipc://{}/{}{}", path_.string(), name, socket_suffix);
}

std::string run_dir::endpoint(std::string_view name, incarnation_id incarnation) const {
  return fmt::format("ipc://{}/{}-{}{}", path_.string(), name, incarnation.value, socket_suffix);
}

// The open file keeps the lock until this process ends.
result<void> run_dir::lock() const {
  const auto file = path_ / lock_name;
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(errc::io_failed, "{}: {}", file.string(), std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0)
    return {};
  close(fd);
  return fail(errc::conflict, "{} is locked by another process", file.string());
}

result<void> run_dir::record(std::string_view name, incarnation_id incarnation) const {
  const auto pid = getpid();
  const auto ticks = start_ticks_of(pid);
  if (!ticks)
    return fail(errc::io_failed, "/proc cannot be read");
  return replace_file(path_ / fmt::format("{}{}", name, record_suffix),
                      fmt::format("{} {} {}\n", pid, *ticks, incarnation.value));
}

result<void> run_dir::write(std::string_view file, const std::string& text) const {
  return replace_file(path_ / file, text);
}

std::optional<std::string> run_dir::read(std::string_view file) const {
  std::ifstream in(path_ / file, std::ios::binary);
  if (!in)
    return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void run_dir::forget(std::string_view name) const {
  std::error_code ignored;
  for (const auto suffix : {record_suffix, key_suffix, device_suffix})
    fs::remove(path_ / fmt::format("{}{}", name, suffix), ignored);
}

void run_dir::record_key(std::string_view name, const std::string& public_key) const {
  // A failed write is not reported here: the process that waits for the key reports a timeout.
  static_cast<void>(write(fmt::format("{}{}", name, key_suffix), public_key));
}

std::string run_dir::recorded_key(std::string_view name) const {
  return read(fmt::format("{}{}", name, key_suffix)).value_or("");
}

void run_dir::record_device(std::string_view name, const std::string& device) const {
  // It is only displayed, so a failed write is ignored.
  static_cast<void>(write(fmt::format("{}{}", name, device_suffix), device));
}

std::string run_dir::recorded_device(std::string_view name) const {
  return read(fmt::format("{}{}", name, device_suffix)).value_or("");
}

std::vector<process_record> run_dir::alive() const {
  std::vector<process_record> records;
  std::error_code failed;
  for (const auto& file : fs::directory_iterator(path_, failed)) {
    if (file.path().extension() != record_suffix)
      continue;
    process_record n{file.path().stem().string(), 0, 0, {}};
    std::ifstream in(file.path());
    if (in >> n.pid >> n.start_ticks >> n.incarnation.value &&
        start_ticks_of(n.pid) == n.start_ticks)
      records.push_back(std::move(n));
  }
  return records;
}

void run_dir::remove_stale_files() const {
  std::error_code failed;
  std::vector<fs::path> old;
  for (const auto& file : fs::directory_iterator(path_, failed))
    if (const auto kind = file.path().extension(); kind == socket_suffix || kind == crashes_suffix)
      old.push_back(file.path());
  for (const auto& path : old)
    fs::remove(path, failed);
}

} // namespace baton::cluster
