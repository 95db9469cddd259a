// A model on disk, in one of two forms: a GGUF file, or a directory in the format of Hugging Face's
// libraries. Both present GGUF's metadata keys and tensor names, so that description and engines do
// not depend on the form. Decisions about the model are made in description.hpp.
#pragma once

#include "runtime/model/tensors/tensor.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baton::model {

class model_file {
public:
  virtual ~model_file() = default;

  virtual const std::filesystem::path& path() const noexcept = 0;
  virtual std::uint64_t size_bytes() const noexcept = 0;
  // "GGUF", "safetensors"
  virtual std::string_view form() const noexcept = 0;
  // A hash of the metadata, the sizes and the first bytes of every tensor, the same on every
  // machine. It protects stages from accidentally different files, not from an attacker.
  virtual std::uint64_t fingerprint() const noexcept = 0;
  // Whether the rows of q and k are as published, for the rotation of halves. The GGUF converter
  // permutes them in some families, for the rotation of pairs.
  virtual bool rotates_halves() const noexcept = 0;
  // The file's own name for a GGUF key or tensor name, for messages.
  virtual std::string original_name(std::string_view name) const = 0;

  virtual bool has(std::string_view key) const noexcept = 0;
  virtual std::vector<std::string> keys() const = 0; // sorted
  // Elements of an array without decoding it; nullopt if the key is absent or not an array.
  virtual std::optional<std::uint64_t> array_size(std::string_view key) const noexcept = 0;
  // Errors: bad_model_file, naming the key, if it is absent, or the value has another kind or does
  // not fit. Integers of any width are accepted if they fit; a float never becomes an integer.
  virtual result<std::uint32_t> get_u32(std::string_view key) const = 0;
  virtual result<std::uint64_t> get_u64(std::string_view key) const = 0;
  virtual result<float> get_f32(std::string_view key) const = 0;
  virtual result<bool> get_bool(std::string_view key) const = 0;
  virtual result<std::string> get_string(std::string_view key) const = 0;
  // An array of integers or bools (1 is true).
  virtual result<std::vector<std::uint32_t>> get_u32s(std::string_view key) const = 0;
  // The same, with a default for an absent key.
  result<std::uint32_t> get_u32(std::string_view key, std::uint32_t otherwise) const;
  result<std::uint64_t> get_u64(std::string_view key, std::uint64_t otherwise) const;
  result<float> get_f32(std::string_view key, float otherwise) const;
  result<bool> get_bool(std::string_view key, bool otherwise) const;
  result<std::string> get_string(std::string_view key, std::string_view otherwise) const;

  // In the order of the file. Views point into the mapping: valid while this object (or the one it
  // was moved to) lives. If the file is truncated while mapped, touching the lost pages raises
  // SIGBUS, so a server loads with copy_rows and keeps no view.
  virtual std::span<const tensor_view> tensors() const noexcept = 0;
  virtual std::optional<tensor_view> find(std::string_view name) const = 0;
  // Reads rows [first, first + count) of a tensor into `out` through the file descriptor. So a file
  // truncated after open is an error (io_failed), never a signal. out.size() must be count *
  // row_bytes. Errors: io_failed, not_found, invalid_value (rows or size out of range).
  virtual result<void> copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                                 std::span<std::byte> out) const = 0;

protected:
  model_file() = default;
  model_file(model_file&&) = default;
  model_file& operator=(model_file&&) = default;
};

// The checks of copy_rows. Errors: invalid_value.
result<void> check_rows(const tensor_view& tensor, std::uint64_t first, std::uint64_t count,
                        std::uint64_t out_bytes);

} // namespace baton::model
