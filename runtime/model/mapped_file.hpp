// A file opened read-only and mapped, for the readers of model files. Views point into the mapping.
// Code that must survive truncation of the file reads through the descriptor.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace baton::model {

// Whether anything with this name exists.
bool is_there(const std::filesystem::path& path) noexcept;

class mapped_file {
public:
  mapped_file() = default;
  // A regular file of any size. Errors: io_failed (names the file).
  static result<mapped_file> open(const std::filesystem::path& path);

  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size_bytes() const noexcept { return bytes_.size(); }
  // Raises SIGBUS if pages are touched that a truncation after open removed.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  // Reads `out.size()` bytes at `offset`; a file that shrank is an error. Errors: io_failed.
  result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const;

private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
};

// Extends a hash; the same on every machine. Detects accidental differences, not attacks.
std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) noexcept;
// The same over the first bytes of a tensor at `offset` of a file. Errors: io_failed.
result<std::uint64_t> mixed_sample(std::uint64_t hash, const mapped_file& file,
                                   std::uint64_t offset, std::uint64_t size);

// Distinguishes fine-tunes from one another; reads one page per tensor.
inline constexpr std::size_t fingerprint_sample_bytes = 64;

} // namespace baton::model
