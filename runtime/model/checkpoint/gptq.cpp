#include "runtime/model/checkpoint/gptq.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace baton::model {
namespace {

static_assert(std::endian::native == std::endian::little); // words are read without conversion

constexpr std::uint64_t codes_per_word = 8;
constexpr std::uint64_t block_inputs = 32; // of Q4_0 and Q5_0
constexpr std::uint64_t words_per_block = block_inputs / codes_per_word;
constexpr std::uint32_t all_eights = 0x88888888; // eight zero points of a symmetric range

std::uint32_t nibble_of(std::uint32_t word, std::uint64_t index) noexcept {
  return word >> (4 * index) & 15U;
}

error unsupported(std::string_view field, const json* value, std::string_view runs) {
  return fail(errc::unsupported_model,
              "config.json: '{}' of 'quantization_config' is {}: this build runs {}", field,
              value != nullptr ? value->dump(-1, ' ', true, json::error_handler_t::replace)
                               : "absent",
              runs);
}

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

// Shapes as published, the contiguous dimension last. Errors: bad_model_file.
result<void> check_shape(const stored_tensor* tensor, std::string_view kind,
                         const stored_tensor& qweight, const tensor_view& wanted) {
  if (tensor == nullptr) {
    return fail(errc::bad_model_file, "tensor '{}' lacks its {}", qweight.view.name, kind);
  }
  if (tensor->view.type != wanted.type || tensor->view.shape != wanted.shape) {
    return fail(errc::bad_model_file, "tensor '{}': expected {} beside '{}' {}, found {}",
                tensor->view.name, shape_of(wanted), qweight.view.name, shape_of(qweight.view),
                shape_of(tensor->view));
  }
  return {};
}

// Reads a whole tensor as words.
result<std::vector<std::uint32_t>> words_of(const stored_tensor& tensor,
                                            std::span<const safetensors_file> files) {
  std::vector<std::uint32_t> words(tensor.view.elements());
  if (auto r = files[tensor.file].read(tensor.view, 0, std::as_writable_bytes(std::span(words)));
      !r) {
    return r.error();
  }
  return words;
}

// Another order of inputs ("desc_act") would need a permutation in every step.
result<void> check_groups(const stored_tensor& g_idx, std::uint64_t group_size,
                          std::span<const safetensors_file> files) {
  const auto groups = words_of(g_idx, files);
  if (!groups) {
    return groups.error();
  }
  for (std::uint64_t input = 0; input < groups->size(); ++input) {
    if ((*groups)[input] != input / group_size) {
      return fail(errc::unsupported_model,
                  "tensor '{}' has input {} in group {}, not {}: this build runs groups of "
                  "consecutive inputs ('desc_act' false)",
                  g_idx.view.name, input, (*groups)[input], input / group_size);
    }
  }
  return {};
}

// Columns [first, first + count) of every row. Errors: io_failed.
template <class T>
result<std::vector<T>> columns_of(const stored_tensor& tensor,
                                  std::span<const safetensors_file> files, std::uint64_t first,
                                  std::uint64_t count) {
  std::vector<T> values(tensor.view.rows() * count);
  const auto bytes = std::as_writable_bytes(std::span(values));
  for (std::uint64_t row = 0; row < tensor.view.rows(); ++row) {
    if (auto r =
            files[tensor.file].read(tensor.view, (row * tensor.view.columns() + first) * sizeof(T),
                                    bytes.subspan(row * count * sizeof(T), count * sizeof(T)));
        !r) {
      return r.error();
    }
  }
  return values;
}

using block_codes = std::array<std::uint32_t, block_inputs>;

// Codes k and k + 16 share a byte.
void write_nibbles(const block_codes& codes, std::byte* out) {
  for (std::uint64_t k = 0; k < block_inputs / 2; ++k) {
    out[k] = static_cast<std::byte>((codes[k] & 15U) | (codes[k + 16] & 15U) << 4U);
  }
}

// [f16 d][nibbles]: d * (q - 8)
void write_q4_0(std::uint16_t scale, const block_codes& codes, std::byte* out) {
  std::memcpy(out, &scale, sizeof(scale));
  write_nibbles(codes, out + sizeof(scale));
}

// [f16 d][fifth bits][nibbles]: d * (q - 16)
void write_q5_0(std::uint16_t scale, std::uint32_t zero, const block_codes& codes, std::byte* out) {
  block_codes moved{};
  std::uint32_t fifth_bits = 0;
  for (std::uint64_t k = 0; k < block_inputs; ++k) {
    moved[k] = codes[k] + 16 - zero; // 1 to 31
    fifth_bits |= (moved[k] >> 4U) << k;
  }
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), &fifth_bits, sizeof(fifth_bits));
  write_nibbles(moved, out + sizeof(scale) + sizeof(fifth_bits));
}

} // namespace

std::string gptq_config::label() const {
  return group_size == 0 ? "GPTQ 4-bit, a group a row"
                         : fmt::format("GPTQ 4-bit, group {}", group_size);
}

result<gptq_config> read_gptq_config(const json& quantization) {
  struct wanted_value {
    std::string_view field;
    json value;
    bool may_be_absent = true;
  };
  const std::array<wanted_value, 4> wanted = {{{"quant_method", "gptq", false},
                                               {"bits", 4, false},
                                               {"pack_dtype", "int32"},
                                               {"is_marlin_format", false}}};
  for (const auto& [field, value, may_be_absent] : wanted) {
    const auto* found = member_of(quantization, field);
    if (found == nullptr ? !may_be_absent : *found != value) {
      return unsupported(field, found, value.dump());
    }
  }
  if (const auto* dynamic = member_of(quantization, "dynamic"); has_own_widths(dynamic)) {
    return unsupported("dynamic", dynamic, "one width and group size, or patterns of \"-:\"");
  }
  gptq_config config;
  const std::string_view format_field =
      member_of(quantization, "checkpoint_format") != nullptr ? "checkpoint_format" : "format";
  const auto* format = member_of(quantization, format_field);
  config.has_lowered_zeros = format == nullptr || *format == "gptq";
  if (!config.has_lowered_zeros && *format != "gptq_v2") {
    return unsupported(format_field, format, "\"gptq\" and \"gptq_v2\"");
  }
  const auto* field = member_of(quantization, "group_size");
  const auto size = field != nullptr && field->is_number_integer() ? field->get<std::int64_t>() : 0;
  if (size != -1 && (size <= 0 || size % std::int64_t{block_inputs} != 0)) {
    return unsupported("group_size", field, "-1 and multiples of 32");
  }
  config.group_size = size == -1 ? 0 : static_cast<std::uint64_t>(size);
  return config;
}

result<gptq_matrix> gptq_matrix::open(const gptq_tensors& tensors, const gptq_config& config,
                                      std::span<const safetensors_file> files) {
  ENSURE(tensors.qweight != nullptr, "a matrix without codes");
  gptq_matrix matrix;
  matrix.qweight_ = *tensors.qweight;
  const auto& codes = matrix.qweight_.view;
  if (codes.type != tensor_type::i32 || codes.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected I32 of two dimensions, found {}",
                codes.name, shape_of(codes));
  }
  const auto in = matrix.inputs(), out = matrix.outputs();
  const auto group_size = config.group_size == 0 ? in : config.group_size;
  if (in % block_inputs != 0 || in % group_size != 0 || out % codes_per_word != 0) {
    return fail(errc::unsupported_model,
                "tensor '{}' has {} inputs and {} outputs: this build runs inputs in multiples of "
                "{} and of 'group_size' ({}), outputs in multiples of {}",
                codes.name, in, out, block_inputs, group_size, codes_per_word);
  }
  const auto groups = in / group_size;
  const tensor_view zeros{{}, tensor_type::i32, {out / codes_per_word, groups}, {}};
  const tensor_view scales{{}, tensor_type::f16, {out, groups}, {}};
  const tensor_view order{{}, tensor_type::i32, {in}, {}};
  for (const auto& r :
       {check_shape(tensors.qzeros, "qzeros", matrix.qweight_, zeros),
        check_shape(tensors.scales, "scales", matrix.qweight_, scales),
        tensors.g_idx != nullptr ? check_shape(tensors.g_idx, "g_idx", matrix.qweight_, order)
                                 : result<void>()}) {
    if (!r) {
      return r.error();
    }
  }
  matrix.scales_ = *tensors.scales;
  if (tensors.g_idx != nullptr) {
    if (auto r = check_groups(*tensors.g_idx, group_size, files); !r) {
      return r.error();
    }
  }
  if (auto r = matrix.read_zeros(*tensors.qzeros, config, files); !r) {
    return r.error();
  }
  return matrix;
}

result<void> gptq_matrix::read_zeros(const stored_tensor& qzeros, const gptq_config& config,
                                     std::span<const safetensors_file> files) {
  auto words = words_of(qzeros, files);
  if (!words) {
    return words.error();
  }
  if (config.has_lowered_zeros) {
    // GPTQModel subtracts one from all eight in one word subtraction, so a zero point of 0 borrows
    // from the next. The addition reverses that.
    constexpr std::uint32_t ones = 0x11111111;
    std::ranges::for_each(*words, [](std::uint32_t& word) { word += ones; });
  }
  if (std::ranges::any_of(*words, [](std::uint32_t word) { return word != all_eights; })) {
    zeros_ = *std::move(words);
  }
  return {};
}

tensor_view gptq_matrix::view(std::string name) const {
  return {std::move(name),
          is_symmetric() ? tensor_type::q4_0 : tensor_type::q5_0,
          {inputs(), outputs()},
          {}};
}

std::uint32_t gptq_matrix::zero_point(std::uint64_t group, std::uint64_t output) const noexcept {
  return nibble_of(zeros_[(group * outputs() + output) / codes_per_word], output % codes_per_word);
}

result<void> gptq_matrix::copy_rows(std::span<const safetensors_file> files, std::uint64_t first,
                                    std::uint64_t count, std::span<std::byte> out) const {
  const auto words = columns_of<std::uint32_t>(qweight_, files, first, count);
  if (!words) {
    return words.error();
  }
  const auto scales = columns_of<std::uint16_t>(scales_, files, first, count);
  if (!scales) {
    return scales.error();
  }
  const auto blocks = inputs() / block_inputs, blocks_per_group = blocks / group_count();
  const auto block_bytes = out.size() / std::max<std::uint64_t>(count * blocks, 1);
  block_codes codes{};
  for (std::uint64_t row = 0; row < count; ++row) {
    for (std::uint64_t block = 0; block < blocks; ++block) {
      for (std::uint64_t k = 0; k < block_inputs; ++k) {
        const auto word = block * words_per_block + k / codes_per_word;
        codes[k] = nibble_of((*words)[word * count + row], k % codes_per_word);
      }
      const auto group = block / blocks_per_group;
      const auto scale = (*scales)[group * count + row];
      auto* to = out.data() + (row * blocks + block) * block_bytes;
      if (is_symmetric()) {
        write_q4_0(scale, codes, to);
      } else {
        write_q5_0(scale, zero_point(group, first + row), codes, to);
      }
    }
  }
  return {};
}

} // namespace baton::model
