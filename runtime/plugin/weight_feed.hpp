// What an engine behind runtime/plugin/abi.hpp is told of its model: the description in the ABI's
// terms, and the weights of one rank of one stage, as 16 or 32 bits, whatever the file has. So an
// engine knows neither files nor quantisation, and fused projections, experts and slices look
// alike.
#pragma once

#include "runtime/model/slice.hpp"
#include "runtime/plugin/abi.hpp"

#include <vector>

namespace baton::plugin {

class weight_feed {
public:
  // `file` outlives it. Errors: bad_model_file (a tensor is missing, or factors of the rotation are
  // none).
  static result<weight_feed> open(const model::model_file& file, const model::description& model,
                                  const model::layer_range& range,
                                  const model::tensor_slice& slice);

  // Points into this object, which must not move meanwhile.
  plugin::decoder describe() const;
  // Nothing if the model has no such weight.
  std::optional<extent> find(const weight_name& name) const;
  // Rows [first, first + count) of it. What the file has in that type is read into `out` itself,
  // unless a rank has some columns of it alone. Requires: `out` has room for them. Thread-safe.
  // Errors: not_found, invalid_value (rows out of range), io_failed.
  result<void> read(const weight_name& name, std::uint64_t first, std::uint64_t count, element as,
                    std::byte* out) const;

private:
  // Where it lies: rows and columns of a tensor of the file.
  struct source {
    std::string tensor;
    std::uint64_t first_row = 0, first_column = 0;
    extent size;
  };
  weight_feed(const model::model_file& file, const model::description& model,
              const model::layer_range& range, const model::tensor_slice& slice)
      : file_(&file), model_(model), own_(model::sliced(model, slice)), range_(range),
        slice_(slice) {}
  result<void> take_frequencies();
  result<void> check_tensors() const;
  std::optional<source> locate(const weight_name& name) const;
  std::optional<source> locate_attention(const weight_name& name) const;
  std::optional<source> locate_ffn(const weight_name& name) const;

  const model::model_file* file_;
  model::description model_, own_;
  model::layer_range range_;
  model::tensor_slice slice_;
  std::vector<layer> layers_;
  std::vector<double> frequencies_, windowed_frequencies_;
};

} // namespace baton::plugin
