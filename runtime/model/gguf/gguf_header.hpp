// Reads the header of a GGUF file into a gguf_file. Only this class uses counts, lengths and
// offsets from the file, after checking them. Private to gguf.cpp. It reads into the heap with
// pread, so a file that shrinks meanwhile is an error, not a signal.
#pragma once

#include "runtime/model/gguf/gguf.hpp"

#include <cstring>

namespace baton::model {

// Kinds of metadata values, numbered as in the GGUF specification.
enum class value_kind : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

std::string_view name_of(value_kind kind) noexcept;
// nullopt for strings and arrays, which carry their own lengths, and for unknown kinds.
std::optional<std::uint64_t> size_of(value_kind kind) noexcept;

class gguf_header_reader {
public:
  // Requires: file.data_ is open.
  explicit gguf_header_reader(gguf_file& file) : file_(file) {}

  // Fills header_, metadata_, tensors_ (with extents_ instead of bytes) and the index of names.
  // Errors: as gguf_file::open_header.
  result<void> read();

  struct extent {
    std::uint64_t offset = 0; // in the file
    std::uint64_t size = 0;
  };
  // One per tensor, checked to lie in the file without overlap.
  const std::vector<extent>& extents() const noexcept { return extents_; }

private:
  result<void> need(std::uint64_t bytes, std::string_view what);
  template <class T>
  result<T> number(std::string_view what);
  result<std::string_view> text(std::uint64_t bytes_max, std::string_view what);
  result<std::string> name(std::uint64_t bytes_max, std::string_view what);
  result<void> skip_value(gguf_file::entry& entry, const std::string& key);
  result<void> read_magic();
  result<void> read_entry();
  result<void> read_alignment();
  result<void> read_tensor();
  result<void> read_shape(tensor_view& tensor);
  result<void> locate_tensors();
  result<void> check_overlaps() const;

  gguf_file& file_;
  std::uint64_t position_ = 0;
  std::vector<extent> extents_; // offsets relative to the data until locate_tensors
};

} // namespace baton::model
