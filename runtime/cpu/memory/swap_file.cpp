// Uses O_TMPFILE, or mkstemp and unlink on file systems without it. Repeats pread and pwrite until
// all bytes are transferred.
#include "runtime/cpu/memory/swap_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace baton::cpu {
namespace {

// Returns -1 and sets errno on failure.
int open_nameless(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return fd;
  std::string name = directory / "swap-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0)
    ::unlink(name.c_str());
  return named;
}

// Reserves disk space; returns 0 or an errno. Checks the free space first, so that a disk that is
// too small is not filled up.
int take_space(int fd, std::size_t size_bytes) {
  struct statvfs facts {};
  if (::fstatvfs(fd, &facts) != 0)
    return errno;
  if (size_bytes / facts.f_frsize >= facts.f_bavail)
    return ENOSPC;
  return ::posix_fallocate(fd, 0, static_cast<off_t>(size_bytes));
}

// `step` transfers what it can of [done, size) and returns the number of bytes.
template <class Step>
result<void> move_all(std::size_t size, const char* what, Step step) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t moved = step(done);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      return fail(errc::io_failed, "swap space: {} {} bytes: {}", what, size - done,
                  moved == 0 ? "the file ends" : std::strerror(errno));
    done += static_cast<std::size_t>(moved);
  }
  return {};
}

} // namespace

result<swap_file> swap_file::create(const std::filesystem::path& directory, std::uint32_t blocks,
                                    std::size_t block_bytes) {
  std::size_t size_bytes = 0;
  if (__builtin_mul_overflow(std::size_t{blocks}, block_bytes, &size_bytes) ||
      size_bytes > static_cast<std::size_t>(PTRDIFF_MAX))
    return fail_param(errc::does_not_fit, "model.swap_space",
                      "model.swap_space: {} blocks of {} bytes are beyond any file", blocks,
                      block_bytes);
  swap_file file(open_nameless(directory), block_bytes);
  if (file.fd_ < 0)
    return fail(errc::io_failed, "swap space in {}: {}", directory.string(), std::strerror(errno));
  const int why = take_space(file.fd_, size_bytes);
  if (why != 0)
    return fail_param(why == ENOSPC || why == EFBIG ? errc::does_not_fit : errc::io_failed,
                      "model.swap_space",
                      "model.swap_space: {} has no {} bytes for this stage ({}): lower it, or move "
                      "cluster.run_dir",
                      directory.string(), size_bytes, std::strerror(why));
  return file;
}

swap_file::~swap_file() {
  if (fd_ >= 0)
    ::close(fd_);
}

result<void> swap_file::write(std::uint32_t block, std::size_t from,
                              std::span<const std::byte> bytes) const {
  return move_all(bytes.size(), "writing", [&](std::size_t done) {
    return ::pwrite(fd_, bytes.data() + done, bytes.size() - done, offset_of(block, from + done));
  });
}

result<void> swap_file::read(std::uint32_t block, std::size_t from,
                             std::span<std::byte> bytes) const {
  return move_all(bytes.size(), "reading", [&](std::size_t done) {
    return ::pread(fd_, bytes.data() + done, bytes.size() - done, offset_of(block, from + done));
  });
}

} // namespace baton::cpu
