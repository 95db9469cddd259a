#include "cluster/hub/part_record.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t line_bytes = 11; // ten digits and a newline

std::string header_of(std::uint64_t bytes, const std::string& etag) {
  return fmt::format("baton-download 1 {} {} {}\n", bytes, part_bytes, etag);
}

std::vector<download_part> parts_of(std::uint64_t bytes) {
  std::vector<download_part> all;
  for (std::uint64_t first = 0; first < bytes; first += part_bytes)
    all.push_back({first, std::min(part_bytes, bytes - first), 0, 0});
  return all;
}

bool write_at(int fd, std::string_view bytes, std::uint64_t at) noexcept {
  while (!bytes.empty()) {
    const auto n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
  return true;
}

std::uint64_t size_of(int fd) noexcept {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

// Sets the size of a file that has another. If an empty file is truncated, ext4 writes all that is
// added later to disk when the file is closed (auto_da_alloc): half a second for each gigabyte.
bool resize(int fd, std::uint64_t bytes) noexcept {
  return size_of(fd) == bytes || ftruncate(fd, static_cast<off_t>(bytes)) == 0;
}

// The parts as the record counts them; empty: it is of another download, or incomplete.
std::vector<download_part> read_parts(int data, int record, std::uint64_t bytes,
                                      const std::string& etag) {
  const auto header = header_of(bytes, etag);
  auto parts = parts_of(bytes);
  std::string text(header.size() + parts.size() * line_bytes, 0);
  const auto n = pread(record, text.data(), text.size(), 0);
  if (n != static_cast<ssize_t>(text.size()) || size_of(record) != text.size() ||
      size_of(data) != bytes || !text.starts_with(header))
    return {};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto* const line = text.data() + header.size() + i * line_bytes;
    auto& p = parts[i];
    const auto read = std::from_chars(line, line + line_bytes - 1, p.done);
    if (read.ec != std::errc() || read.ptr != line + line_bytes - 1 || p.done > p.bytes)
      return {};
    p.recorded = p.done;
  }
  return parts;
}

std::uint64_t done_of(const std::vector<download_part>& parts) noexcept {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const download_part& p) { return sum + p.done; });
}

error write_error() {
  return fail(errc::io_failed, "the download cannot be written: {}", std::strerror(errno));
}

} // namespace

result<part_record> part_record::open(const fs::path& data, const fs::path& record,
                                      std::uint64_t bytes, const std::string& etag) {
  std::error_code failed;
  fs::create_directories(data.parent_path(), failed);
  if (failed)
    return fail(errc::io_failed, "{}: {}", data.parent_path().string(), failed.message());
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  part_record r(::open(data.c_str(), flags, 0644), ::open(record.c_str(), flags, 0644));
  if (r.data_ < 0 || r.record_ < 0)
    return fail(errc::io_failed, "{}: {}", data.string(), std::strerror(errno));
  r.header_ = header_of(bytes, etag);
  r.parts_ = read_parts(r.data_, r.record_, bytes, etag);
  if (r.parts_.empty() && bytes > 0) {
    r.parts_ = parts_of(bytes);
    if (auto ok = r.clear(); !ok)
      return ok.error();
  }
  r.was_resumed_ = r.done() > 0;
  return r;
}

part_record::part_record(part_record&& other) noexcept
    : data_(std::exchange(other.data_, -1)), record_(std::exchange(other.record_, -1)),
      header_(std::move(other.header_)), parts_(std::move(other.parts_)),
      was_resumed_(other.was_resumed_) {}

part_record::~part_record() {
  for (const int fd : {data_, record_})
    if (fd >= 0)
      close(fd);
}

std::uint64_t part_record::done() const noexcept {
  return done_of(parts_);
}

std::uint64_t part_record::done_from_start() const noexcept {
  const auto gap =
      std::find_if(parts_.begin(), parts_.end(), [](const auto& p) { return !p.is_done(); });
  return gap == parts_.end() ? done() : gap->first + gap->done;
}

result<void> part_record::append(std::size_t number, std::string_view bytes) {
  auto& p = parts_.at(number);
  if (bytes.size() > p.bytes - p.done)
    return fail(errc::io_failed, "the server sends more than was asked for");
  if (!write_at(data_, bytes, p.first + p.done))
    return write_error();
  p.done += bytes.size();
  return p.is_done() || p.done - p.recorded >= record_step ? flush(number) : result<void>();
}

result<void> part_record::flush(std::size_t number) {
  auto& p = parts_.at(number);
  if (p.recorded == p.done)
    return {};
  p.recorded = p.done;
  return write_line(number);
}

result<void> part_record::write_line(std::size_t number) {
  const auto line = fmt::format("{:010}\n", parts_.at(number).recorded);
  return write_at(record_, line, header_.size() + number * line_bytes) ? result<void>()
                                                                       : write_error();
}

result<void> part_record::clear() {
  std::uint64_t bytes = 0;
  std::string text = header_;
  for (auto& p : parts_) {
    p.done = p.recorded = 0;
    bytes += p.bytes;
    text += "0000000000\n";
  }
  was_resumed_ = false;
  const bool ok =
      resize(record_, 0) && resize(data_, 0) && resize(data_, bytes) && write_at(record_, text, 0);
  return ok ? result<void>() : write_error();
}

std::uint64_t recorded_bytes(const fs::path& data, const fs::path& record, std::uint64_t bytes,
                             const std::string& etag) {
  const int fd = open(data.c_str(), O_RDONLY | O_CLOEXEC);
  const int lines = open(record.c_str(), O_RDONLY | O_CLOEXEC);
  const auto done = fd >= 0 && lines >= 0 ? done_of(read_parts(fd, lines, bytes, etag)) : 0;
  for (const int one : {fd, lines})
    if (one >= 0)
      close(one);
  return done;
}

} // namespace baton::cluster
