#include "cluster/files/memory_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace baton::cluster {

result<memory_file> memory_file::create(const std::string& name) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0)
    return fail(errc::io_failed, "memfd_create: {}", std::strerror(errno));
  return memory_file(fd);
}

memory_file::~memory_file() {
  if (fd_ >= 0)
    close(fd_);
}

} // namespace baton::cluster
