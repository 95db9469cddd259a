// A file opened read-only and mapped, for the readers of model files. Views show the mapping;
// what must not die of a file that is cut short while in use reads through the descriptor.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace baton::model {

// Whether there is anything of this name.
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
  // Touching pages of a file that was cut short since open raises SIGBUS.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  // Reads `out.size()` bytes at `offset`; a file that shrank is an error. Errors: io_failed.
  result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const;

private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
};

// Goes on hashing; the same on every machine. Tells files apart by accident, not by attack.
std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) noexcept;
// The same over the first bytes of a tensor at `offset` of a file. Errors: io_failed.
result<std::uint64_t> mixed_sample(std::uint64_t hash, const mapped_file& file,
                                   std::uint64_t offset, std::uint64_t size);

// Enough to tell one fine-tune from another; one page read per tensor.
inline constexpr std::size_t fingerprint_sample_bytes = 64;

} // namespace baton::model
