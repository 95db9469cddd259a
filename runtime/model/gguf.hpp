// A GGUF file (versions 2 and 3, little-endian), opened read-only: typed metadata and tensors. The
// file comes from the world: every count, length, offset and product is checked against the file's
// size before it is used, and what is wrong is said by name. Decides nothing about the model: that
// is description.hpp.
//
// Layout: magic, version, tensor count, key count, then the metadata, the tensor infos, padding to
// general.alignment, then the data (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include "runtime/model/tensor.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton::model {

// Limits on what a file may claim; all far above any published model.
namespace gguf_limits {
inline constexpr std::uint64_t metadata_count_max = 1U << 16U;
inline constexpr std::uint64_t tensor_count_max = 1U << 17U;
inline constexpr std::uint64_t key_bytes_max = 65535;          // the specification's
inline constexpr std::uint64_t tensor_name_bytes_max = 64;     // the specification's
inline constexpr std::uint32_t dimensions_max = 4;             // the specification's
inline constexpr std::uint64_t string_bytes_max = 64U << 20U;  // embedded tokenizer.json files
inline constexpr std::uint64_t array_count_max = 16U << 20U;   // a vocabulary has under 2^19 tokens
inline constexpr std::uint64_t header_bytes_max = 256U << 20U; // the header is copied to the heap
inline constexpr std::uint32_t alignment_min = 8;              // the specification's
inline constexpr std::uint32_t alignment_max = 1U << 20U;
} // namespace gguf_limits

// Enough to tell one fine-tune from another; one page read per tensor.
inline constexpr std::size_t fingerprint_sample_bytes = 64;

class gguf_file {
public:
  // Errors: io_failed (cannot be opened or read), bad_model_file (what is wrong, where),
  // unsupported_model (big-endian, a version or a tensor type that this build does not know).
  static result<gguf_file> open(const std::filesystem::path& path);

  gguf_file(gguf_file&& other) noexcept;
  gguf_file& operator=(gguf_file&& other) noexcept;
  gguf_file(const gguf_file&) = delete;
  gguf_file& operator=(const gguf_file&) = delete;
  ~gguf_file();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size_bytes() const noexcept { return size_; }
  std::uint32_t version() const noexcept { return version_; }
  std::uint32_t alignment() const noexcept { return alignment_; }
  // A hash of the header, the file's size and the first bytes of every tensor, the same on every
  // machine: guards stages against different files by accident, not against an attacker.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  bool has(std::string_view key) const noexcept;
  std::vector<std::string> keys() const; // sorted
  // Elements of an array without decoding it; nothing if the key is absent or is no array.
  std::optional<std::uint64_t> array_size(std::string_view key) const noexcept;

  // The first form fails if the key is absent, the second gives `otherwise` then. Both fail
  // (bad_model_file, naming the key) if the value has another kind or does not fit. Integers of any
  // width are taken where they fit; a float never becomes an integer.
  result<std::uint32_t> get_u32(std::string_view key) const;
  result<std::uint32_t> get_u32(std::string_view key, std::uint32_t otherwise) const;
  result<std::uint64_t> get_u64(std::string_view key) const;
  result<std::uint64_t> get_u64(std::string_view key, std::uint64_t otherwise) const;
  result<float> get_f32(std::string_view key) const;
  result<float> get_f32(std::string_view key, float otherwise) const;
  result<bool> get_bool(std::string_view key) const;
  result<bool> get_bool(std::string_view key, bool otherwise) const;
  result<std::string> get_string(std::string_view key) const;
  result<std::string> get_string(std::string_view key, std::string_view otherwise) const;
  // Arrays; an absent key is an error (ask has() first where it is optional).
  result<std::vector<std::string>> get_strings(std::string_view key) const;
  result<std::vector<std::int32_t>> get_i32s(std::string_view key) const;
  result<std::vector<float>> get_f32s(std::string_view key) const;

  // In the order of the file. Views point into the mapping: valid as long as this object (or the
  // one it was moved to) lives. If somebody truncates the file while it is mapped, touching the
  // lost pages raises SIGBUS; a server therefore loads with copy_rows and keeps no view.
  std::span<const tensor_view> tensors() const noexcept { return tensors_; }
  std::optional<tensor_view> find(std::string_view name) const;

  // Reads rows [first, first + count) of a tensor into `out` through the file descriptor, so that a
  // file cut short since open is an error (io_failed), never a signal. out.size() must be
  // count * row_bytes. Errors: io_failed, not_found, invalid_value (rows or size out of range).
  result<void> copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const;

private:
  friend class gguf_header_reader;

  // Where a value lies in header_. For an array: kind is that of the elements.
  struct entry {
    std::uint32_t kind = 0;
    bool is_array = false;
    std::uint64_t count = 1;
    std::uint64_t offset = 0;
  };

  gguf_file() = default;
  const entry* find_entry(std::string_view key) const noexcept;
  // Requires: the key is there.
  error wrong_kind(std::string_view key, std::string_view wanted) const;
  template <class T, class Convert>
  result<T> number(std::string_view key, std::string_view wanted, Convert convert) const;
  template <class T, class Convert>
  result<std::vector<T>> numbers(std::string_view key, std::string_view wanted,
                                 Convert convert) const;
  result<std::vector<std::string>> strings_of(std::string_view key, bool is_array) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  const std::byte* mapping_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint32_t version_ = 0;
  std::uint32_t alignment_ = 32;
  std::uint64_t fingerprint_ = 0;
  std::vector<std::byte> header_;
  std::map<std::string, entry, std::less<>> metadata_;
  std::vector<tensor_view> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_by_name_;
};

} // namespace baton::model
