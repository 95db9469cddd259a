// Matrices quantised to 4 bits by GPTQ (arXiv 2210.17323), as AutoGPTQ and GPTQModel store them.
// `X.weight` [out, in] is replaced by:
//
//   `X.qweight`  I32 [in / 8, out]        codes: eight inputs per word, the first in the low bits.
//   `X.qzeros`   I32 [groups, out / 8]    zero points: eight outputs per word.
//   `X.scales`   F16 [groups, out]        weight = scale * (code - zero).
//   `X.g_idx`    I32 [in]                 the group of each input; optional.
//
// Rows are read in a GGUF block layout that holds the same numbers exactly, so other code needs no
// knowledge of GPTQ. The layout is Q4_0 if every zero point is 8, else Q5_0, whose codes have room
// for all differences from -15 to 15. Used only by checkpoint.cpp.
#pragma once

#include "runtime/model/checkpoint/safetensors.hpp"
#include "runtime/model/json_file.hpp"

#include <optional>
#include <string>

namespace baton::model {

// "quantization_config" of config.json.
struct gptq_config {
  std::uint64_t group_size = 0; // inputs that share a scale and a zero point; 0: the whole row
  // checkpoint_format "gptq", not "gptq_v2": each word of qzeros is stored minus 0x11111111.
  bool has_lowered_zeros = true;

  std::string label() const; // "GPTQ 4-bit, group 128"
};

// Errors: unsupported_model (names the field and its value).
result<gptq_config> read_gptq_config(const json& quantization);

// A tensor in one of a checkpoint's files, by its published name.
struct stored_tensor {
  std::size_t file = 0;
  tensor_view view;
};

// The stored tensors of one matrix; null if the files have none.
struct gptq_tensors {
  const stored_tensor* qweight = nullptr;
  const stored_tensor* qzeros = nullptr;
  const stored_tensor* scales = nullptr;
  const stored_tensor* g_idx = nullptr;
};

class gptq_matrix {
public:
  // Checks the tensors against each other and reads the groups and zero points. Requires: qweight.
  // Errors: bad_model_file, unsupported_model (both name the tensor), io_failed.
  static result<gptq_matrix> open(const gptq_tensors& tensors, const gptq_config& config,
                                  std::span<const safetensors_file> files);

  // The view has no bytes; only copy_rows provides them.
  tensor_view view(std::string name) const;
  // Requires: rows of the view, the files of open(). Errors: io_failed.
  result<void> copy_rows(std::span<const safetensors_file> files, std::uint64_t first,
                         std::uint64_t count, std::span<std::byte> out) const;

private:
  gptq_matrix() = default;
  std::uint64_t inputs() const noexcept { return 8 * qweight_.view.rows(); }
  std::uint64_t outputs() const noexcept { return qweight_.view.columns(); }
  std::uint64_t group_count() const noexcept { return scales_.view.rows(); }
  bool is_symmetric() const noexcept { return zeros_.empty(); }
  std::uint32_t zero_point(std::uint64_t group, std::uint64_t output) const noexcept;
  result<void> read_zeros(const stored_tensor& qzeros, const gptq_config& config,
                          std::span<const safetensors_file> files);

  stored_tensor qweight_, scales_;
  std::vector<std::uint32_t> zeros_; // [groups, out / 8] as packed; empty if all are 8
};

} // namespace baton::model
