#include "runtime/model/checkpoint/formats/fp8.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace baton::model {
namespace {

// Four bits of exponent with bias 7, three of fraction. There is no infinity; all ones is NaN.
constexpr std::array<float, 256> e4m3_numbers = [] {
  std::array<float, 256> numbers{};
  for (std::uint32_t bits = 0; bits < numbers.size(); ++bits) {
    const std::uint32_t exponent = bits >> 3U & 15U, fraction = bits & 7U;
    float number = static_cast<float>(exponent == 0 ? fraction : fraction + 8);
    for (std::uint32_t i = std::max(exponent, 1U); i < 10; ++i) {
      number *= 0.5F;
    }
    for (std::uint32_t i = 10; i < exponent; ++i) {
      number *= 2.0F;
    }
    const bool is_nan = exponent == 15 && fraction == 7;
    numbers[bits] = is_nan ? std::numeric_limits<float>::quiet_NaN() : number;
    if (bits > 127) {
      numbers[bits] = -numbers[bits];
    }
  }
  return numbers;
}();

// Scales [scale_rows, scale_columns], each of a block.
struct scale_grid {
  fp8_block block;
  std::uint64_t rows = 1, columns = 1;
};

constexpr std::uint64_t ceiling(std::uint64_t count, std::uint64_t unit) {
  return count / unit + (count % unit != 0 ? 1 : 0);
}

class fp8_matrix final : public quantised_matrix {
public:
  fp8_matrix(stored_tensor weight, stored_tensor scale, const scale_grid& grid)
      : weight_(std::move(weight)), scale_(std::move(scale)), grid_(grid) {}

  tensor_view view() const override { return {{}, tensor_type::bf16, weight_.view.shape, {}}; }

  result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override {
    const auto columns = weight_.view.columns();
    const auto numbers =
        elements_of<std::uint8_t>(weight_, files, first * columns, count * columns);
    if (!numbers || count == 0) {
      return numbers ? result<void>() : result<void>(numbers.error());
    }
    const auto [block_rows, block_columns] = grid_.block;
    const auto first_scale = first / block_rows;
    const auto last_scale = (first + count - 1) / block_rows;
    const auto scales = floats_of(scale_, files, first_scale * grid_.columns,
                                  (last_scale - first_scale + 1) * grid_.columns);
    if (!scales) {
      return scales.error();
    }
    auto* to = out.data();
    for (std::uint64_t row = 0; row < count; ++row) {
      const auto* of_row =
          scales->data() + ((first + row) / block_rows - first_scale) * grid_.columns;
      const auto* from = numbers->data() + row * columns;
      for (std::uint64_t begin = 0; begin < columns; begin += block_columns, ++of_row) {
        const auto end = begin + std::min(block_columns, columns - begin);
        for (auto k = begin; k < end; ++k, to += sizeof(std::uint16_t)) {
          const auto half = f32_to_bf16(e4m3_numbers[from[k]] * *of_row);
          std::memcpy(to, &half, sizeof half);
        }
      }
    }
    return {};
  }

private:
  stored_tensor weight_, scale_;
  scale_grid grid_;
};

bool has_shape(const tensor_view& tensor, std::uint64_t rows, std::uint64_t columns) {
  return tensor.shape == std::vector<std::uint64_t>{columns, rows};
}

} // namespace

float f8_e4m3_to_f32(std::uint8_t bits) noexcept {
  return e4m3_numbers[bits];
}

std::string fp8_format::label() const {
  return block_ ? fmt::format("FP8, blocks of {}x{}", block_->first, block_->second) : "FP8";
}

std::optional<module_part> fp8_format::part_of(const tensor_view& stored) const {
  const auto is = [&](std::string_view suffix) { return stored.name.ends_with(suffix); };
  if (is(".weight") && stored.type == tensor_type::f8_e4m3) {
    return part_at_dot(stored.name, part_kind::codes);
  }
  if (is(".weight_scale_inv") || is(".weight_scale")) {
    return part_at_dot(stored.name, part_kind::beside);
  }
  return is_of_activations(stored.name) ? std::optional(part_at_dot(stored.name, part_kind::unused))
                                        : std::nullopt;
}

result<matrix_pointer> fp8_format::open(const module_parts& parts, file_span) const {
  const auto& weight = *parts.find("weight");
  if (weight.view.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected two dimensions, found {}",
                weight.view.name, shape_of(weight.view));
  }
  const auto* inverse = parts.find("weight_scale_inv");
  const auto* scale = inverse != nullptr ? inverse : parts.find("weight_scale");
  if (scale == nullptr) {
    return lacks(weight, block_ ? "weight_scale_inv" : "weight_scale");
  }
  if (!is_float_type(scale->view.type)) {
    return mismatched(*scale, weight, "F32, BF16, F16 or F8_E8M0");
  }
  const auto columns = weight.view.columns(), rows = weight.view.rows();
  const auto made = [&](const scale_grid& grid) -> result<matrix_pointer> {
    return matrix_pointer(std::make_shared<fp8_matrix>(weight, *scale, grid));
  };
  if (block_) {
    const auto across = ceiling(columns, block_->second), down = ceiling(rows, block_->first);
    if (has_shape(scale->view, down, across)) {
      return made({*block_, down, across});
    }
    return mismatched(*scale, weight,
                      fmt::format("[{}, {}] (a scale for each {}x{})", down, across, block_->first,
                                  block_->second));
  }
  if (scale->view.elements() == 1) {
    return made({{rows, columns}, 1, 1});
  }
  if (has_shape(scale->view, rows, 1) || scale->view.shape == std::vector<std::uint64_t>{rows}) {
    return made({{1, columns}, rows, 1});
  }
  return mismatched(*scale, weight, fmt::format("[1] or [{}, 1]", rows));
}

result<fp8_block> fp8_block_of(std::string_view field, const json& value) {
  constexpr std::uint64_t size_max = 1U << 20U;
  const auto is_size = [](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() >= 1 &&
           each.get<std::uint64_t>() <= size_max;
  };
  if (!value.is_array() || value.size() != 2 || !is_size(value[0]) || !is_size(value[1])) {
    return unsupported_quantisation(field, &value, "two positive numbers, as [128, 128]");
  }
  return fp8_block{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
}

result<format_pointer> read_fp8_format(const json& quantization) {
  const auto* kind = member_of(quantization, "fmt");
  if (kind != nullptr && *kind != "e4m3" && *kind != "float8_e4m3fn") {
    return unsupported_quantisation("fmt", kind, "\"e4m3\"");
  }
  const auto* size = member_of(quantization, "weight_block_size");
  if (size == nullptr) {
    return format_pointer(std::make_shared<fp8_format>(std::nullopt));
  }
  const auto block = fp8_block_of("weight_block_size", *size);
  if (!block) {
    return block.error();
  }
  return format_pointer(std::make_shared<fp8_format>(*block));
}

} // namespace baton::model
