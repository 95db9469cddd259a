#include "runtime/model/checkpoint/formats/gptq.hpp"

#include <algorithm>
#include <array>

namespace baton::model {
namespace {

// Whether patterns give some modules another width or group; "-:" only excludes modules.
bool has_own_widths(const json* dynamic) {
  if (dynamic == nullptr) {
    return false;
  }
  if (!dynamic->is_object()) {
    return true;
  }
  const auto& patterns = dynamic->items();
  return std::any_of(patterns.begin(), patterns.end(),
                     [](const auto& each) { return !each.key().starts_with("-:"); });
}

// GPTQModel subtracts one from all zero points of a word in one subtraction, so a zero point of 0
// borrows from the next. Adding the same word reverses that.
std::uint32_t ones_of(std::uint32_t bits) {
  return 0xFFFFFFFFU / ((1U << bits) - 1U);
}

class gptq_matrix final : public code_matrix {
public:
  static result<matrix_pointer> open(const module_parts& parts, const gptq_config& config,
                                     file_span files);

protected:
  result<std::vector<std::uint8_t>> read_codes(file_span files, std::uint64_t first,
                                               std::uint64_t count) const override;
  result<code_groups> read_groups(file_span files, std::uint64_t first,
                                  std::uint64_t count) const override;

private:
  gptq_config config_;
  stored_tensor qweight_, qzeros_, scales_;
};

result<matrix_pointer> gptq_matrix::open(const module_parts& parts, const gptq_config& config,
                                         file_span files) {
  auto matrix = std::make_shared<gptq_matrix>();
  matrix->config_ = config;
  matrix->qweight_ = *parts.find("qweight");
  const auto& codes = matrix->qweight_.view;
  if (codes.type != tensor_type::i32 || codes.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected I32 of two dimensions, found {}",
                codes.name, shape_of(codes));
  }
  const auto bits = config.bits;
  const auto in = codes.rows() * (word_bits / bits), out = codes.columns();
  const auto group_size = config.group_size == 0 ? in : config.group_size;
  if (in % inputs_unit != 0 || in % group_size != 0 || out * bits % word_bits != 0) {
    return fail(errc::unsupported_model,
                "tensor '{}' has {} inputs and {} outputs: this build runs inputs in multiples of "
                "{} and of 'group_size' ({}), outputs in multiples of {}",
                codes.name, in, out, inputs_unit, group_size, word_bits / bits);
  }
  const auto groups = in / group_size;
  const tensor_view zeros{{}, tensor_type::i32, {out * bits / word_bits, groups}, {}};
  const tensor_view scales{{}, tensor_type::f16, {out, groups}, {}};
  const tensor_view order{{}, tensor_type::i32, {in}, {}};
  const auto *qzeros = parts.find("qzeros"), *of_scales = parts.find("scales"),
             *g_idx = parts.find("g_idx");
  for (const auto& r :
       {check_part(qzeros, "qzeros", matrix->qweight_, zeros),
        check_part(of_scales, "scales", matrix->qweight_, scales),
        g_idx != nullptr ? check_part(g_idx, "g_idx", matrix->qweight_, order) : result<void>()}) {
    if (!r) {
      return r.error();
    }
  }
  matrix->qzeros_ = *qzeros;
  matrix->scales_ = *of_scales;
  if (g_idx != nullptr) {
    if (auto r = matrix->read_order(*g_idx, groups, files); !r) {
      return r.error();
    }
  }
  if (auto r = matrix->prepare({in, out, groups, bits}, tensor_type::f16, files); !r) {
    return r.error();
  }
  return matrix_pointer(std::move(matrix));
}

result<std::vector<std::uint8_t>> gptq_matrix::read_codes(file_span files, std::uint64_t first,
                                                          std::uint64_t count) const {
  const auto words = columns_of<std::uint32_t>(qweight_, files, first, count);
  if (!words) {
    return words.error();
  }
  std::vector<std::uint8_t> codes(count * inputs());
  for (std::uint64_t row = 0; row < count; ++row) {
    for (std::uint64_t input = 0; input < inputs(); ++input) {
      codes[row * inputs() + input] = code_at(words->data() + row, count, input, config_.bits);
    }
  }
  return codes;
}

result<code_groups> gptq_matrix::read_groups(file_span files, std::uint64_t first,
                                             std::uint64_t count) const {
  const auto bits = config_.bits;
  const auto per_word = word_bits / bits;
  // The words of zero points that hold some of these rows.
  const auto first_word = first / per_word;
  const auto width = (first + count + per_word - 1) / per_word - first_word;
  auto words = columns_of<std::uint32_t>(qzeros_, files, first_word, width);
  if (!words) {
    return words.error();
  }
  if (config_.has_lowered_zeros) {
    std::ranges::for_each(*words, [&](std::uint32_t& word) { word += ones_of(bits); });
  }
  auto scales = float_columns_of(scales_, files, first, count);
  if (!scales) {
    return scales.error();
  }
  code_groups read{*std::move(scales), std::vector<std::uint8_t>(count * groups())};
  for (std::uint64_t row = 0; row < count; ++row) {
    const auto at = first + row - first_word * per_word;
    for (std::uint64_t group = 0; group < groups(); ++group) {
      read.zeros[row * groups() + group] = code_at(words->data() + group * width, 1, at, bits);
    }
  }
  return read;
}

} // namespace

std::string gptq_format::label() const {
  return fmt::format("GPTQ {}-bit, {}", config_.bits,
                     config_.group_size == 0 ? "a group a row"
                                             : fmt::format("group {}", config_.group_size));
}

std::string gptq_format::settings() const {
  return fmt::format("{}, {}", label(), config_.has_lowered_zeros);
}

std::optional<module_part> part_of_qweight(const tensor_view& stored) {
  const auto is = [&](std::string_view suffix) { return stored.name.ends_with(suffix); };
  if (is(".qweight")) {
    return part_at_dot(stored.name, part_kind::codes);
  }
  if (is(".bias")) {
    return part_at_dot(stored.name, part_kind::bias);
  }
  return is(".qzeros") || is(".scales") || is(".g_idx")
             ? std::optional(part_at_dot(stored.name, part_kind::beside))
             : std::nullopt;
}

std::optional<module_part> gptq_format::part_of(const tensor_view& stored) const {
  return part_of_qweight(stored);
}

result<matrix_pointer> gptq_format::open(const module_parts& parts, file_span files) const {
  return gptq_matrix::open(parts, config_, files);
}

result<std::uint64_t> group_size_of(const json& quantization) {
  const auto* field = member_of(quantization, "group_size");
  const auto size = field != nullptr && field->is_number_integer() ? field->get<std::int64_t>() : 0;
  if (size != -1 && (size <= 0 || size % std::int64_t{inputs_unit} != 0)) {
    return unsupported_quantisation("group_size", field, "-1 and multiples of 32");
  }
  return size == -1 ? 0 : static_cast<std::uint64_t>(size);
}

result<gptq_config> read_gptq_config(const json& quantization) {
  struct wanted_value {
    std::string_view field;
    json value;
    bool may_be_absent = true;
  };
  const std::array<wanted_value, 3> wanted = {
      {{"quant_method", "gptq", false}, {"pack_dtype", "int32"}, {"is_marlin_format", false}}};
  for (const auto& [field, value, may_be_absent] : wanted) {
    const auto* found = member_of(quantization, field);
    if (found == nullptr ? !may_be_absent : *found != value) {
      return unsupported_quantisation(field, found, value.dump());
    }
  }
  gptq_config config;
  const auto* bits = member_of(quantization, "bits");
  constexpr std::array widths = {2, 4, 8}; // 3 bits have two forms of lowered zero points
  const auto width =
      std::ranges::find_if(widths, [&](int each) { return bits != nullptr && *bits == each; });
  if (width == widths.end()) {
    return unsupported_quantisation("bits", bits, "2, 4 and 8");
  }
  config.bits = static_cast<std::uint32_t>(*width);
  if (const auto* dynamic = member_of(quantization, "dynamic"); has_own_widths(dynamic)) {
    return unsupported_quantisation("dynamic", dynamic,
                                    "one width and group size, or patterns of \"-:\"");
  }
  const std::string_view format_field =
      member_of(quantization, "checkpoint_format") != nullptr ? "checkpoint_format" : "format";
  const auto* format = member_of(quantization, format_field);
  config.has_lowered_zeros = format == nullptr || *format == "gptq";
  if (!config.has_lowered_zeros && *format != "gptq_v2") {
    return unsupported_quantisation(format_field, format, "\"gptq\" and \"gptq_v2\"");
  }
  const auto size = group_size_of(quantization);
  if (!size) {
    return size.error();
  }
  config.group_size = *size;
  return config;
}

result<format_pointer> read_gptq_format(const json& quantization) {
  const auto config = read_gptq_config(quantization);
  return config ? format_pointer(std::make_shared<gptq_format>(*config))
                : result<format_pointer>(config.error());
}

} // namespace baton::model
