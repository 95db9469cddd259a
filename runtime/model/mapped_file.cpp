#include "runtime/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace baton::model {

bool is_there(const std::filesystem::path& path) noexcept {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

result<mapped_file> mapped_file::open(const std::filesystem::path& path) {
  mapped_file file;
  file.path_ = path;
  // O_NONBLOCK: a FIFO in place of a file must not block; no effect on a regular file.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0) {
    return fail(errc::io_failed, "{}: {}", path.string(), std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(errc::io_failed, "{}: not a regular file", path.string());
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) { // cannot be mapped
    return file;
  }
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (mapping == MAP_FAILED) {
    return fail(errc::io_failed, "{}: mapping {} bytes: {}", path.string(), size,
                std::generic_category().message(errno));
  }
  file.bytes_ = {static_cast<const std::byte*>(mapping), size};
  return file;
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})) {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

result<void> mapped_file::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail(errc::io_failed, "reading {} bytes at offset {}: {}", out.size(), offset,
                  std::generic_category().message(errno));
    }
    if (got == 0) {
      return fail(errc::io_failed, "the file was cut short while in use: no bytes at offset {}",
                  offset);
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15; // 2^64 / golden ratio
  while (!bytes.empty()) {
    std::array<std::byte, 8> word{};
    const auto take = std::min(bytes.size(), word.size());
    std::memcpy(word.data(), bytes.data(), take);
    hash = (hash ^ std::bit_cast<std::uint64_t>(word)) * odd;
    hash ^= hash >> 29U;
    bytes = bytes.subspan(take);
  }
  return hash;
}

result<std::uint64_t> mixed_sample(std::uint64_t hash, const mapped_file& file,
                                   std::uint64_t offset, std::uint64_t size) {
  std::array<std::byte, fingerprint_sample_bytes> sample{};
  const auto taken = std::span(sample).first(std::min<std::uint64_t>(sample.size(), size));
  if (auto r = file.read_at(offset, taken); !r) {
    return r.error();
  }
  return mixed(hash, taken);
}

} // namespace baton::model
