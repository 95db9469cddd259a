// The input and output tensors of a language model in the KServe v2 protocol (Open Inference
// Protocol, with Triton's binary data extension). Encodes their values in JSON and in bytes. Pure;
// shared by HTTP and gRPC.
#pragma once

#include "gateway/request/json_reader.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The protocol's types that a language model uses.
enum class tensor_type : std::uint8_t { boolean, int32, uint32, uint64, fp32, bytes };
std::string_view datatype_of(tensor_type type) noexcept; // "BOOL", "BYTES" ...

// A tensor of the model, with one value or up to tensor_values_max.
struct tensor_row {
  std::string_view name;
  tensor_type type;
  bool is_list = false;
  bool is_optional = true;
  bool is_parameter = false; // a sampling parameter: also accepted as such
};

// As many as the stop strings of a message: no other tensor is a list.
inline constexpr std::size_t tensor_values_max = 64;
inline constexpr std::size_t tensor_dims_max = 8; // the product of dimensions is bounded elsewhere

// JSON values, row by row: booleans, numbers, strings.
using tensor_values = std::vector<json>;

// The names of Triton's vLLM backend, then TensorRT-LLM's names for fields of
// `sampling_parameters`.
std::span<const tensor_row> kserve_inputs() noexcept;
std::span<const tensor_row> kserve_outputs() noexcept; // in the order of kserve_output
enum class kserve_output : std::uint8_t {
  text_output,
  finish_reason,
  cumulative_logprob,
  logprobs,
  num_input_tokens,
  num_output_tokens
};
inline const tensor_row& row_of(kserve_output which) noexcept {
  return kserve_outputs()[static_cast<std::size_t>(which)];
}
// Null: no tensor of that name.
const tensor_row* find_tensor(std::span<const tensor_row> rows, std::string_view name) noexcept;

// The number of values of a shape: [n], or [1,n] for a batch of one. Errors: invalid_value, with
// the tensor's name as param; the same below.
result<std::size_t> count_of(const tensor_row& row, std::span<const std::int64_t> shape);
// `data`: an array of values or of arrays, or a single value.
result<tensor_values> values_of_json(const tensor_row& row, const json& data, std::size_t count);
// Little-endian; a text has its length in 4 bytes before it. Requires all of `data` to be used.
result<tensor_values> values_of_bytes(const tensor_row& row, std::string_view data,
                                      std::size_t count);
void append_bytes(std::string& out, tensor_type type, const tensor_values& values);

} // namespace baton::gateway
