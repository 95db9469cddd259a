// A safetensors file, opened read-only: tensors by their published names. The file is untrusted:
// every length, offset and product is checked against the file's size before use.
//
// Layout: the header's length (u64, little-endian); the header (a JSON object: name -> dtype,
// shape, data_offsets [begin, end)); the data. The tensors fill the data without a gap.
// (https://github.com/huggingface/safetensors#format)
#pragma once

#include "runtime/model/mapped_file.hpp"
#include "runtime/model/tensors/tensor.hpp"

#include <span>
#include <string>
#include <vector>

namespace baton::model {

namespace safetensors_limits {
inline constexpr std::uint64_t header_bytes_max = 100'000'000; // the reference implementation's
inline constexpr std::size_t tensor_count_max = 1U << 17U;
inline constexpr std::size_t name_bytes_max = 1024;
inline constexpr std::size_t dimensions_max = 4; // of a tensor_view
} // namespace safetensors_limits

// "F16 [4, 32]": as published, the contiguous dimension last.
std::string shape_of(const tensor_view& tensor);

class safetensors_file {
public:
  // Errors: io_failed, bad_model_file (the file, the tensor and the problem), unsupported_model (an
  // unknown dtype).
  static result<safetensors_file> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return data_.path(); }
  std::uint64_t size_bytes() const noexcept { return data_.size_bytes(); }
  // Extends a hash by the size, the header and the first bytes of every tensor. Errors: io_failed.
  result<std::uint64_t> mixed_into(std::uint64_t hash) const;

  // In the order of the data; shapes in GGUF's order, the contiguous dimension first. Views point
  // into the mapping, like those of model_file::tensors().
  std::span<const tensor_view> tensors() const noexcept { return tensors_; }
  // Requires: `tensor` is one of tensors(), and the range lies within it. Errors: io_failed.
  result<void> read(const tensor_view& tensor, std::uint64_t offset,
                    std::span<std::byte> out) const;

private:
  result<void> read_header();

  mapped_file data_;
  std::uint64_t data_start_ = 0;
  std::vector<tensor_view> tensors_;
};

} // namespace baton::model
