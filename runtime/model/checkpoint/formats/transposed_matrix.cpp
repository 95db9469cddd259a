#include "runtime/model/checkpoint/formats/transposed_matrix.hpp"

#include <algorithm>
#include <cstring>

namespace baton::model {
namespace {

class transposed_matrix final : public quantised_matrix {
public:
  explicit transposed_matrix(stored_tensor stored) : stored_(std::move(stored)) {}

  tensor_view view() const override {
    const auto& shape = stored_.view.shape; // out, in, experts
    return {{}, stored_.view.type, {shape[1], shape[0], shape[2]}, {}};
  }

  result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override {
    const auto outputs = stored_.view.shape[0];
    while (count > 0) {
      const auto now = std::min(count, outputs - first % outputs); // of one expert
      const auto bytes = now * view().row_bytes();
      if (auto r = copy_of_expert(files, first / outputs, first % outputs, now, out.first(bytes));
          !r) {
        return r;
      }
      out = out.subspan(bytes);
      first += now;
      count -= now;
    }
    return {};
  }

private:
  result<void> copy_of_expert(file_span files, std::uint64_t expert, std::uint64_t first,
                              std::uint64_t count, std::span<std::byte> out) const {
    const std::uint64_t size = tensor_type_traits(stored_.view.type).block_bytes;
    const auto outputs = stored_.view.shape[0], inputs = stored_.view.shape[1];
    std::vector<std::byte> columns(count * size);
    for (std::uint64_t input = 0; input < inputs; ++input) {
      const auto at = (expert * inputs + input) * outputs + first;
      if (auto r = files[stored_.file].read(stored_.view, at * size, columns); !r) {
        return r;
      }
      for (std::uint64_t row = 0; row < count; ++row) {
        std::memcpy(out.data() + (row * inputs + input) * size, columns.data() + row * size, size);
      }
    }
    return {};
  }

  stored_tensor stored_;
};

} // namespace

result<matrix_pointer> transposed(const stored_tensor& stored) {
  if (stored.view.shape.size() != 3 || stored.view.type == tensor_type::f8_e8m0 ||
      !is_float_type(stored.view.type)) {
    return fail(errc::bad_model_file,
                "tensor '{}': expected BF16, F16 or F32 of three dimensions, found {}",
                stored.view.name, shape_of(stored.view));
  }
  return matrix_pointer(std::make_shared<transposed_matrix>(stored));
}

} // namespace baton::model
