// A matrix that the files store as several tensors of one module, and the formats that do so. Rows
// are read in a type of tensor.hpp, so other code needs no knowledge of the formats.
//
// "quantization_config" of config.json names the format. The files decide which matrices have it: a
// matrix stored as floats stays as it is, whether or not config.json lists it as left out.
#pragma once

#include "runtime/model/json_file.hpp"
#include "runtime/model/safetensors/stored_tensor.hpp"

#include <memory>
#include <optional>
#include <string>

namespace baton::model {

class quantised_matrix {
public:
  virtual ~quantised_matrix() = default;

  // Without a name and without bytes; only copy_rows provides them.
  virtual tensor_view view() const = 0;
  // Requires: rows of the view, the files that it was opened with. Errors: io_failed.
  virtual result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                                 std::span<std::byte> out) const = 0;

protected:
  quantised_matrix() = default;
  quantised_matrix(const quantised_matrix&) = default;
  quantised_matrix(quantised_matrix&&) = default;
  quantised_matrix& operator=(const quantised_matrix&) = default;
  quantised_matrix& operator=(quantised_matrix&&) = default;
};

using matrix_pointer = std::shared_ptr<const quantised_matrix>;

// A stored tensor's place in its module.
enum class part_kind : std::uint8_t {
  codes,  // every quantised matrix has them
  beside, // needed with them
  bias,
  unused, // of activations, which keep this engine's precision
};
struct module_part {
  std::string module, role;
  part_kind kind = part_kind::codes;
};
// "X.scales" as of the module X.
module_part part_at_dot(std::string_view published, part_kind kind);
// Whether it is a scale or zero point of activations or of the KV cache: "X.input_scale".
bool is_of_activations(std::string_view published);

class quantised_format {
public:
  virtual ~quantised_format() = default;

  virtual std::string label() const = 0; // "GPTQ 4-bit, group 128"
  // The fields that change the numbers, for the fingerprint.
  virtual std::string settings() const { return label(); }
  virtual std::string_view codes_shown() const noexcept = 0; // "qweight", for messages
  // The name of the matrix if it were not quantised.
  virtual std::string published_of(const std::string& module) const { return module + ".weight"; }
  // nullopt for a tensor that is no part of a quantised matrix.
  virtual std::optional<module_part> part_of(const tensor_view& stored) const = 0;
  // Checks the tensors against each other. Requires: the codes. Errors: bad_model_file,
  // unsupported_model (both name the tensor), io_failed.
  virtual result<matrix_pointer> open(const module_parts& parts, file_span files) const = 0;

protected:
  quantised_format() = default;
  quantised_format(const quantised_format&) = default;
  quantised_format(quantised_format&&) = default;
  quantised_format& operator=(const quantised_format&) = default;
  quantised_format& operator=(quantised_format&&) = default;
};

using format_pointer = std::shared_ptr<const quantised_format>;

// Errors: unsupported_model (names the field and its value).
result<format_pointer> read_quantised_format(const json& quantization);

// "'bits' of 'quantization_config' is 5: this build runs 4 and 8"
error unsupported_quantisation(std::string_view field, const json* value, std::string_view runs);

} // namespace baton::model
