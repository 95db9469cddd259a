#include "runtime/model/checkpoint/formats/packed_codes.hpp"

#include <algorithm>

namespace baton::model {
namespace {

// A row of words holds the codes of a row of the matrix.
class packed_matrix_codes final : public code_matrix {
public:
  static result<matrix_pointer> open(const module_parts& parts, const packed_config& config,
                                     file_span files);

protected:
  result<std::vector<std::uint8_t>> read_codes(file_span files, std::uint64_t first,
                                               std::uint64_t count) const override;
  result<code_groups> read_groups(file_span files, std::uint64_t first,
                                  std::uint64_t count) const override;

private:
  packed_config config_;
  stored_tensor packed_, scale_;
  std::optional<stored_tensor> zero_;
};

// Out and in of weight_shape. Errors: bad_model_file, io_failed.
result<std::pair<std::uint64_t, std::uint64_t>>
stated_shape(const stored_tensor& shape, const stored_tensor& codes, file_span files) {
  const auto& view = shape.view;
  if (view.elements() != 2 || (view.type != tensor_type::i64 && view.type != tensor_type::i32)) {
    return mismatched(shape, codes, "I64 [2]");
  }
  if (view.type == tensor_type::i32) {
    const auto sizes = elements_of<std::uint32_t>(shape, files, 0, 2);
    return sizes ? result(std::pair<std::uint64_t, std::uint64_t>((*sizes)[0], (*sizes)[1]))
                 : sizes.error();
  }
  const auto sizes = elements_of<std::uint64_t>(shape, files, 0, 2);
  return sizes ? result(std::pair((*sizes)[0], (*sizes)[1])) : sizes.error();
}

result<matrix_pointer> packed_matrix_codes::open(const module_parts& parts,
                                                 const packed_config& config, file_span files) {
  auto matrix = std::make_shared<packed_matrix_codes>();
  matrix->config_ = config;
  matrix->packed_ = *parts.find("weight_packed");
  const auto& packed = matrix->packed_;
  if (packed.view.type != tensor_type::i32 || packed.view.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected I32 of two dimensions, found {}",
                packed.view.name, shape_of(packed.view));
  }
  const auto bits = config.bits;
  const auto out = packed.view.rows(), in = packed.view.columns() * (word_bits / bits);
  const auto* shape = parts.find("weight_shape");
  if (shape == nullptr) {
    return lacks(packed, "weight_shape");
  }
  const auto stated = stated_shape(*shape, packed, files);
  if (!stated) {
    return stated.error();
  }
  if (*stated != std::pair(out, in)) {
    return fail(errc::bad_model_file, "tensor '{}' is [{}, {}], but '{}' of {} bits has [{}, {}]",
                shape->view.name, stated->first, stated->second, packed.view.name, bits, out, in);
  }
  const auto* scale = parts.find("weight_scale");
  if (scale == nullptr) {
    return lacks(packed, "weight_scale");
  }
  const auto groups = scale->view.columns();
  const auto group_size = config.group_size == 0 ? in / groups : config.group_size;
  if (!is_float_type(scale->view.type) || scale->view.shape.size() != 2 ||
      scale->view.rows() != out) {
    return mismatched(*scale, packed, fmt::format("F16, BF16 or F32 [{}, groups]", out));
  }
  if (in % inputs_unit != 0 || group_size == 0 || in % group_size != 0 ||
      in / group_size != groups) {
    return fail(errc::unsupported_model,
                "tensor '{}' has {} inputs, '{}' {} groups: this build runs multiples of {} and of "
                "'group_size' ({})",
                packed.view.name, in, scale->view.name, groups, inputs_unit, group_size);
  }
  matrix->scale_ = *scale;
  const auto* zero = parts.find("weight_zero_point");
  if (!config.is_symmetric || zero != nullptr) {
    const auto words = (out * bits + word_bits - 1) / word_bits;
    if (auto r = check_part(zero, "weight_zero_point", packed,
                            {{}, tensor_type::i32, {groups, words}, {}});
        !r) {
      return r.error();
    }
    matrix->zero_ = *zero;
  }
  if (const auto* order = parts.find("weight_g_idx")) {
    if (auto r = check_part(order, "weight_g_idx", packed, {{}, tensor_type::i32, {in}, {}}); !r) {
      return r.error();
    }
    if (auto r = matrix->read_order(*order, groups, files); !r) {
      return r.error();
    }
  }
  if (auto r = matrix->prepare({in, out, groups, bits}, scale->view.type, files); !r) {
    return r.error();
  }
  return matrix_pointer(std::move(matrix));
}

result<std::vector<std::uint8_t>>
packed_matrix_codes::read_codes(file_span files, std::uint64_t first, std::uint64_t count) const {
  const auto width = packed_.view.columns();
  const auto words = elements_of<std::uint32_t>(packed_, files, first * width, count * width);
  if (!words) {
    return words.error();
  }
  std::vector<std::uint8_t> codes(count * inputs());
  for (std::uint64_t i = 0; i < codes.size(); ++i) {
    codes[i] = code_at(words->data(), 1, i, config_.bits);
  }
  return codes;
}

result<code_groups> packed_matrix_codes::read_groups(file_span files, std::uint64_t first,
                                                     std::uint64_t count) const {
  auto scales = floats_of(scale_, files, first * groups(), count * groups());
  if (!scales) {
    return scales.error();
  }
  code_groups read{*std::move(scales), {}};
  read.zeros.assign(count * groups(), static_cast<std::uint8_t>(1U << (config_.bits - 1)));
  if (!zero_) {
    return read;
  }
  const auto per_word = word_bits / config_.bits;
  const auto first_word = first / per_word;
  const auto end_word = (first + count + per_word - 1) / per_word;
  const auto words = elements_of<std::uint32_t>(*zero_, files, first_word * groups(),
                                                (end_word - first_word) * groups());
  if (!words) {
    return words.error();
  }
  for (std::uint64_t row = 0; row < count; ++row) {
    for (std::uint64_t group = 0; group < groups(); ++group) {
      read.zeros[row * groups() + group] = code_at(
          words->data() + group, groups(), first + row - first_word * per_word, config_.bits);
    }
  }
  return read;
}

class int8_matrix final : public code_matrix {
public:
  static result<matrix_pointer> open(const module_parts& parts, file_span files);

protected:
  // Plus 128, as codes are without a sign.
  result<std::vector<std::uint8_t>> read_codes(file_span files, std::uint64_t first,
                                               std::uint64_t count) const override {
    auto codes = elements_of<std::uint8_t>(weight_, files, first * inputs(), count * inputs());
    if (codes) {
      std::ranges::for_each(*codes, [](std::uint8_t& code) { code ^= 0x80U; });
    }
    return codes;
  }
  result<code_groups> read_groups(file_span files, std::uint64_t first,
                                  std::uint64_t count) const override {
    const bool is_of_all = scale_.view.elements() == 1;
    auto scales = floats_of(scale_, files, is_of_all ? 0 : first, is_of_all ? 1 : count);
    if (!scales) {
      return scales.error();
    }
    if (is_of_all) {
      scales->resize(count, scales->front());
    }
    return code_groups{*std::move(scales), std::vector<std::uint8_t>(count, 128)};
  }

private:
  stored_tensor weight_, scale_;
};

result<matrix_pointer> int8_matrix::open(const module_parts& parts, file_span files) {
  auto matrix = std::make_shared<int8_matrix>();
  matrix->weight_ = *parts.find("weight");
  const auto& weight = matrix->weight_;
  if (weight.view.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected two dimensions, found {}",
                weight.view.name, shape_of(weight.view));
  }
  const auto in = weight.view.columns(), out = weight.view.rows();
  if (in % inputs_unit != 0) {
    return fail(errc::unsupported_model,
                "tensor '{}' has {} inputs: this build runs multiples of {}", weight.view.name, in,
                inputs_unit);
  }
  const auto* scale = parts.find("weight_scale");
  if (scale == nullptr) {
    return lacks(weight, "weight_scale");
  }
  using shape = std::vector<std::uint64_t>;
  const bool fits = scale->view.elements() == 1 || scale->view.shape == shape{1, out} ||
                    scale->view.shape == shape{out};
  if (!is_float_type(scale->view.type) || !fits) {
    return mismatched(*scale, weight, fmt::format("F16, BF16 or F32 [{}, 1]", out));
  }
  matrix->scale_ = *scale;
  if (auto r = matrix->prepare({in, out, 1, 8}, scale->view.type, files); !r) {
    return r.error();
  }
  return matrix_pointer(std::move(matrix));
}

} // namespace

std::string packed_format::label() const {
  return fmt::format("compressed-tensors int {}-bit{}", config_.bits,
                     config_.group_size == 0 ? "" : fmt::format(", group {}", config_.group_size));
}

std::string packed_format::settings() const {
  return fmt::format("{}, {}", label(), config_.is_symmetric);
}

std::optional<module_part> packed_format::part_of(const tensor_view& stored) const {
  const auto is = [&](std::string_view suffix) { return stored.name.ends_with(suffix); };
  if (is(".weight_packed")) {
    return part_at_dot(stored.name, part_kind::codes);
  }
  if (is(".weight_scale") || is(".weight_zero_point") || is(".weight_g_idx") ||
      is(".weight_shape")) {
    return part_at_dot(stored.name, part_kind::beside);
  }
  return is_of_activations(stored.name) ? std::optional(part_at_dot(stored.name, part_kind::unused))
                                        : std::nullopt;
}

result<matrix_pointer> packed_format::open(const module_parts& parts, file_span files) const {
  return packed_matrix_codes::open(parts, config_, files);
}

std::optional<module_part> int8_format::part_of(const tensor_view& stored) const {
  if (stored.name.ends_with(".weight") && stored.type == tensor_type::i8) {
    return part_at_dot(stored.name, part_kind::codes);
  }
  if (stored.name.ends_with(".weight_scale")) {
    return part_at_dot(stored.name, part_kind::beside);
  }
  return is_of_activations(stored.name) ? std::optional(part_at_dot(stored.name, part_kind::unused))
                                        : std::nullopt;
}

result<matrix_pointer> int8_format::open(const module_parts& parts, file_span files) const {
  return int8_matrix::open(parts, files);
}

} // namespace baton::model
