// A GGUF file (versions 2 and 3, little-endian), opened read-only: typed metadata and tensors. The
// file is untrusted: every count, length, offset and product is checked against the file's size
// before use, and errors name the offending item.
//
// A model may be in several files: the first has the metadata, and keys of the form split.* say how
// many there are. They are read as one.
//
// Layout: magic, version, tensor count, key count, then the metadata, the tensor infos, padding to
// general.alignment, then the data (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include "runtime/model/mapped_file.hpp"
#include "runtime/model/model_file.hpp"

#include <map>

namespace baton::model {

// Limits on the claims of a file; all far above any published model.
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

class gguf_file final : public model_file {
public:
  // With all parts, if this is the first of several. Errors: io_failed (cannot be opened or read),
  // bad_model_file (the problem and its location, or the part that is wrong), unsupported_model
  // (big-endian, an unsupported version or tensor type).
  static result<gguf_file> open(const std::filesystem::path& path);
  // Only the header, of a file that holds the first bytes of one of `file_bytes`. Tensors have no
  // bytes, and there is no fingerprint. Errors: as open(), without the path; not_ready (the header
  // goes on behind the bytes that are there).
  static result<gguf_file> open_header(const std::filesystem::path& path, std::uint64_t file_bytes);

  // Files that the model is in, by the metadata; 1 without the key. Errors: bad_model_file.
  result<std::uint32_t> part_count() const;
  // Takes the tensors of the next part; the first part is this file. Errors: bad_model_file (it is
  // not the next one).
  result<void> add_part(gguf_file part);
  // Whether all parts are there, with the tensors that the metadata counts. Errors: bad_model_file.
  result<void> check_parts() const;

  const std::filesystem::path& path() const noexcept override { return data_.path(); }
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; } // of all parts
  std::string_view form() const noexcept override { return "GGUF"; }
  std::uint32_t version() const noexcept { return version_; }
  std::uint32_t alignment() const noexcept { return alignment_; }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }
  bool rotates_halves() const noexcept override { return false; }
  std::string original_name(std::string_view name) const override { return std::string(name); }

  using model_file::get_bool;
  using model_file::get_f32;
  using model_file::get_string;
  using model_file::get_u32;
  using model_file::get_u64;
  bool has(std::string_view key) const noexcept override;
  std::vector<std::string> keys() const override;
  std::optional<std::uint64_t> array_size(std::string_view key) const noexcept override;
  result<std::uint32_t> get_u32(std::string_view key) const override;
  result<std::uint64_t> get_u64(std::string_view key) const override;
  result<float> get_f32(std::string_view key) const override;
  result<bool> get_bool(std::string_view key) const override;
  result<std::string> get_string(std::string_view key) const override;
  result<std::vector<std::uint32_t>> get_u32s(std::string_view key) const override;
  // Arrays; an absent key is an error (check has() for optional keys).
  result<std::vector<std::string>> get_strings(std::string_view key) const;
  result<std::vector<std::int32_t>> get_i32s(std::string_view key) const;
  result<std::vector<float>> get_f32s(std::string_view key) const;

  std::span<const tensor_view> tensors() const noexcept override { return tensors_; }
  std::optional<tensor_view> find(std::string_view name) const override;
  result<void> copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override;

private:
  friend class gguf_header_reader;

  // Location of a value in header_. For an array, `kind` is that of the elements.
  struct entry {
    std::uint32_t kind = 0;
    bool is_array = false;
    std::uint64_t count = 1;
    std::uint64_t offset = 0;
  };

  gguf_file() = default;
  static result<gguf_file> open_one(const std::filesystem::path& path);
  result<void> open_parts();
  const mapped_file& file_with(std::size_t tensor) const noexcept;
  const entry* find_entry(std::string_view key) const noexcept;
  // Requires: the key is present.
  error wrong_kind(std::string_view key, std::string_view wanted) const;
  template <class T, class Convert>
  result<T> number(std::string_view key, std::string_view wanted, Convert convert) const;
  template <class T, class Convert>
  result<std::vector<T>> numbers(std::string_view key, std::string_view wanted,
                                 Convert convert) const;
  result<std::vector<std::string>> strings_of(std::string_view key, bool is_array) const;

  mapped_file data_;
  std::uint64_t size_bytes_ = 0; // of the whole file, which data_ may hold a part of
  std::uint32_t version_ = 0;
  std::uint32_t alignment_ = 32;
  std::uint64_t fingerprint_ = 0;
  std::vector<std::byte> header_;
  std::map<std::string, entry, std::less<>> metadata_;
  std::vector<tensor_view> tensors_;
  struct later_part {
    mapped_file data;
    std::size_t first_tensor = 0;
  };
  std::vector<later_part> later_parts_;
  std::map<std::string, std::size_t, std::less<>> index_by_name_;
};

} // namespace baton::model
