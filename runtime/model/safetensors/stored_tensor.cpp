#include "runtime/model/safetensors/stored_tensor.hpp"

#include <bit>
#include <cmath>

namespace baton::model {

static_assert(std::endian::native == std::endian::little); // elements are read without conversion

error lacks(const stored_tensor& codes, std::string_view role) {
  return fail(errc::bad_model_file, "tensor '{}' lacks its {}", codes.view.name, role);
}

error mismatched(const stored_tensor& part, const stored_tensor& codes, std::string_view expected) {
  return fail(errc::bad_model_file, "tensor '{}': expected {} beside '{}' {}, found {}",
              part.view.name, expected, codes.view.name, shape_of(codes.view), shape_of(part.view));
}

result<void> check_part(const stored_tensor* part, std::string_view role,
                        const stored_tensor& codes, const tensor_view& wanted) {
  if (part == nullptr) {
    return lacks(codes, role);
  }
  if (part->view.type != wanted.type || part->view.shape != wanted.shape) {
    return mismatched(*part, codes, shape_of(wanted));
  }
  return {};
}

bool is_float_type(tensor_type type) noexcept {
  return type == tensor_type::f32 || type == tensor_type::f16 || type == tensor_type::bf16 ||
         type == tensor_type::f8_e8m0;
}

result<std::vector<float>> floats_of(const stored_tensor& tensor, file_span files,
                                     std::uint64_t first, std::uint64_t count) {
  const auto size = tensor_type_traits(tensor.view.type).block_bytes;
  const auto raw = elements_of<std::byte>(tensor, files, first * size, count * size);
  if (!raw) {
    return raw.error();
  }
  std::vector<float> values(count);
  if (tensor.view.type != tensor_type::f8_e8m0) {
    dequantize_row(tensor.view.type, raw->data(), values.data(), count);
    return values;
  }
  constexpr int bias = 127;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(1.0F, std::to_integer<int>((*raw)[i]) - bias);
  }
  return values;
}

result<void> read_columns(const stored_tensor& tensor, file_span files, std::uint64_t first,
                          std::uint64_t count, std::span<std::byte> out) {
  const std::uint64_t size = tensor_type_traits(tensor.view.type).block_bytes;
  for (std::uint64_t row = 0; row < tensor.view.rows(); ++row) {
    const auto at = (row * tensor.view.columns() + first) * size;
    if (auto r =
            files[tensor.file].read(tensor.view, at, out.subspan(row * count * size, count * size));
        !r) {
      return r;
    }
  }
  return {};
}

result<std::vector<float>> float_columns_of(const stored_tensor& tensor, file_span files,
                                            std::uint64_t first, std::uint64_t count) {
  const auto rows = tensor.view.rows();
  std::vector<std::byte> raw(rows * count * tensor_type_traits(tensor.view.type).block_bytes);
  if (auto r = read_columns(tensor, files, first, count, raw); !r) {
    return r.error();
  }
  std::vector<float> values(rows * count), columns(values.size());
  dequantize_row(tensor.view.type, raw.data(), values.data(), values.size());
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < count; ++column) {
      columns[column * rows + row] = values[row * count + column];
    }
  }
  return columns;
}

} // namespace baton::model
