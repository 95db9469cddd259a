// A file in memory (memfd). Any process that holds a descriptor can map it; it lives until the last
// descriptor is closed.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <utility>

namespace baton::cluster {

class memory_file {
public:
  // Empty; `name` shows in /proc. Errors: io_failed.
  static result<memory_file> create(const std::string& name);

  memory_file(memory_file&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  memory_file& operator=(memory_file&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~memory_file();

  int fd() const noexcept { return fd_; } // closed on exec

private:
  explicit memory_file(int fd) : fd_(fd) {}
  int fd_ = -1;
};

} // namespace baton::cluster
