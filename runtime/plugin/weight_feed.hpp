// Describes a model to an engine behind runtime/plugin/abi.hpp, and provides the weights of one
// rank of one stage in 16 or 32 bits, whatever type the file has. Engines therefore need not know
// file formats, quantisation, fused projections, experts or slices.
#pragma once

#include "runtime/model/slice.hpp"
#include "runtime/plugin/abi.hpp"

#include <vector>

namespace baton::plugin {

class weight_feed {
public:
  // `file` outlives this object. `max_model_len` chooses between longrope's factors. Errors:
  // bad_model_file (a tensor is missing, or the rope factors are invalid), unsupported_model (names
  // what the interface does not say).
  static result<weight_feed> open(const model::model_file& file, const model::description& model,
                                  const model::layer_range& range, const model::tensor_slice& slice,
                                  std::uint32_t max_model_len);

  // The result points into this object, which must not move.
  plugin::decoder describe() const;
  // Empty if the model has no such weight.
  std::optional<extent> find(const weight_name& name) const;
  // Reads rows [first, first + count). Reads directly into `out` if the file has the same type and
  // this rank needs whole rows. Requires: `out` is large enough. Thread-safe. Errors: not_found,
  // invalid_value (rows out of range), io_failed.
  result<void> read(const weight_name& name, std::uint64_t first, std::uint64_t count, element as,
                    std::byte* out) const;

private:
  // The location of a weight: rows and columns of a tensor in the file.
  struct source {
    std::string tensor;
    std::uint64_t first_row = 0, first_column = 0;
    extent size;
  };
  weight_feed(const model::model_file& file, const model::description& model,
              const model::layer_range& range, const model::tensor_slice& slice)
      : file_(&file), model_(model), own_(model::sliced(model, slice)), range_(range),
        slice_(slice) {}
  result<void> take_rotations(std::uint32_t max_model_len);
  result<std::vector<float>> read_factors(std::string_view tensor, std::size_t pairs) const;
  result<void> check_tensors() const;
  std::optional<source> locate(const weight_name& name) const;
  std::optional<source> locate_attention(const weight_name& name) const;
  std::optional<source> locate_ffn(const weight_name& name) const;
  std::optional<source> locate_beside_experts(const weight_name& name) const;
  // This rank's rows of an ffn of `size` rows in a mixture.
  model::index_range beside(std::uint32_t size) const noexcept;

  const model::model_file* file_;
  model::description model_, own_;
  model::layer_range range_;
  model::tensor_slice slice_;
  std::vector<layer> layers_;
  std::vector<std::vector<double>> frequencies_; // [ropes]
  std::vector<rotation_angles> rotations_;       // point into them
};

} // namespace baton::plugin
