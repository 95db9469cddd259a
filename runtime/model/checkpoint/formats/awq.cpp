#include "runtime/model/checkpoint/formats/awq.hpp"

#include "runtime/model/checkpoint/formats/gptq.hpp"

#include <algorithm>
#include <array>

namespace baton::model {
namespace {

constexpr std::uint64_t outputs_per_word = 8;
constexpr std::uint64_t inputs_together = 32; // of every row that an engine reads
constexpr std::uint32_t code_bits = 4;

// Where in a word the code of output i is, in nibbles from the low bits.
constexpr std::array<std::uint32_t, outputs_per_word> nibble_of_output = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint8_t awq_code(std::uint32_t word, std::uint64_t output) {
  return static_cast<std::uint8_t>(word >> (code_bits * nibble_of_output[output]) & 15U);
}

class awq_matrix final : public code_matrix {
public:
  static result<matrix_pointer> open(const module_parts& parts, std::uint64_t wanted_group,
                                     file_span files);

protected:
  result<std::vector<std::uint8_t>> read_codes(file_span files, std::uint64_t first,
                                               std::uint64_t count) const override {
    return unpacked(qweight_, files, first, count);
  }
  result<code_groups> read_groups(file_span files, std::uint64_t first,
                                  std::uint64_t count) const override;

private:
  // Columns [first, first + count) of words of eight, transposed: [count, rows].
  static result<std::vector<std::uint8_t>> unpacked(const stored_tensor& tensor, file_span files,
                                                    std::uint64_t first, std::uint64_t count);

  stored_tensor qweight_, qzeros_, scales_;
};

result<matrix_pointer> awq_matrix::open(const module_parts& parts, std::uint64_t wanted_group,
                                        file_span files) {
  auto matrix = std::make_shared<awq_matrix>();
  matrix->qweight_ = *parts.find("qweight");
  const auto& codes = matrix->qweight_.view;
  if (codes.type != tensor_type::i32 || codes.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected I32 of two dimensions, found {}",
                codes.name, shape_of(codes));
  }
  const auto in = codes.rows(), out = codes.columns() * outputs_per_word;
  const auto group_size = wanted_group == 0 ? in : wanted_group;
  if (in % inputs_together != 0 || in % group_size != 0) {
    return fail(errc::unsupported_model,
                "tensor '{}' has {} inputs: this build runs multiples of {} and of 'group_size' "
                "({})",
                codes.name, in, inputs_together, group_size);
  }
  const auto groups = in / group_size;
  const auto *qzeros = parts.find("qzeros"), *scales = parts.find("scales");
  const bool is_brain = scales != nullptr && scales->view.type == tensor_type::bf16;
  const auto scale_type = is_brain ? tensor_type::bf16 : tensor_type::f16;
  for (const auto& r :
       {check_part(qzeros, "qzeros", matrix->qweight_,
                   {{}, tensor_type::i32, {out / outputs_per_word, groups}, {}}),
        check_part(scales, "scales", matrix->qweight_, {{}, scale_type, {out, groups}, {}})}) {
    if (!r) {
      return r.error();
    }
  }
  matrix->qzeros_ = *qzeros;
  matrix->scales_ = *scales;
  if (auto r = matrix->prepare({in, out, groups, code_bits}, scale_type, files); !r) {
    return r.error();
  }
  return matrix_pointer(std::move(matrix));
}

result<std::vector<std::uint8_t>> awq_matrix::unpacked(const stored_tensor& tensor, file_span files,
                                                       std::uint64_t first, std::uint64_t count) {
  const auto first_word = first / outputs_per_word;
  const auto width = (first + count + outputs_per_word - 1) / outputs_per_word - first_word;
  const auto words = columns_of<std::uint32_t>(tensor, files, first_word, width);
  if (!words) {
    return words.error();
  }
  const auto rows = tensor.view.rows();
  std::vector<std::uint8_t> codes(count * rows);
  for (std::uint64_t output = 0; output < count; ++output) {
    const auto word = (first + output) / outputs_per_word - first_word;
    for (std::uint64_t row = 0; row < rows; ++row) {
      codes[output * rows + row] =
          awq_code((*words)[row * width + word], (first + output) % outputs_per_word);
    }
  }
  return codes;
}

result<code_groups> awq_matrix::read_groups(file_span files, std::uint64_t first,
                                            std::uint64_t count) const {
  auto zeros = unpacked(qzeros_, files, first, count);
  if (!zeros) {
    return zeros.error();
  }
  auto scales = float_columns_of(scales_, files, first, count);
  if (!scales) {
    return scales.error();
  }
  return code_groups{*std::move(scales), *std::move(zeros)};
}

} // namespace

std::string awq_format::label() const {
  return fmt::format("AWQ 4-bit, {}",
                     group_size_ == 0 ? "a group a row" : fmt::format("group {}", group_size_));
}

std::optional<module_part> awq_format::part_of(const tensor_view& stored) const {
  return part_of_qweight(stored);
}

result<matrix_pointer> awq_format::open(const module_parts& parts, file_span files) const {
  return awq_matrix::open(parts, group_size_, files);
}

result<format_pointer> read_awq_format(const json& quantization) {
  // transformers writes "bits" and "group_size", AutoAWQ's own file "w_bit" and "q_group_size".
  const auto* bits = member_of(quantization, "bits");
  if (bits == nullptr || *bits != code_bits) {
    return unsupported_quantisation("bits", bits, "4");
  }
  for (const auto* field : {"version", "format"}) {
    const auto* version = member_of(quantization, field);
    if (version != nullptr && *version != "gemm" && *version != "GEMM") {
      return unsupported_quantisation(field, version, "\"gemm\"");
    }
  }
  const auto size = group_size_of(quantization);
  if (!size) {
    return size.error();
  }
  return format_pointer(std::make_shared<awq_format>(*size));
}

} // namespace baton::model
