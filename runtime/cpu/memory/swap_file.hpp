// Swap space of a stage: an unnamed file for the KV blocks of preempted sequences. All space is
// reserved at the start, so a full disk is an error then; the file ends with the process. It uses
// read and write calls: a failing disk fails a step, whereas a mapping would kill the process.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace baton::cpu {

class swap_file {
public:
  swap_file() = default; // without blocks
  // Errors: does_not_fit (the directory has too little space), io_failed.
  static result<swap_file> create(const std::filesystem::path& directory, std::uint32_t blocks,
                                  std::size_t block_bytes);

  swap_file(swap_file&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), block_bytes_(other.block_bytes_) {}
  swap_file& operator=(swap_file&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(block_bytes_, other.block_bytes_);
    return *this;
  }
  ~swap_file();

  // The bytes of a block from `from` on. Thread-safe. Requires: they are within the file. Errors:
  // io_failed.
  result<void> write(std::uint32_t block, std::size_t from, std::span<const std::byte> bytes) const;
  result<void> read(std::uint32_t block, std::size_t from, std::span<std::byte> bytes) const;

private:
  swap_file(int fd, std::size_t block_bytes) : fd_(fd), block_bytes_(block_bytes) {}
  off_t offset_of(std::uint32_t block, std::size_t from) const noexcept {
    return static_cast<off_t>(block * block_bytes_ + from);
  }

  int fd_ = -1;
  std::size_t block_bytes_ = 0;
};

} // namespace baton::cpu
