// Tensors of the KServe v2 protocol (Open Inference Protocol, with Triton's extension for binary
// data): those that a language model takes and gives, and how their values lie in JSON and in
// bytes. Pure; the doors of HTTP and gRPC share it.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// Of the protocol's types those that a language model has.
enum class tensor_type : std::uint8_t { boolean, int32, uint32, uint64, fp32, bytes };
std::string_view datatype_of(tensor_type type) noexcept; // "BOOL", "BYTES" ...

// A tensor of the model: of one value, or of any number up to tensor_values_max.
struct tensor_row {
  std::string_view name;
  tensor_type type;
  bool is_list = false;
  bool is_optional = true;
  bool is_parameter = false; // of sampling: it may be said as one as well
};

// As many as stop texts fit the wire: no other tensor is a list.
inline constexpr std::size_t tensor_values_max = 64;
inline constexpr std::size_t tensor_dims_max = 8; // whatever they are, their product is bounded

// As JSON has them, row by row: booleans, numbers, strings.
using tensor_values = std::vector<json>;

// The names of Triton's vLLM backend, and behind them those of TensorRT-LLM for what the former
// keeps in `sampling_parameters`.
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
// Null: there is none of that name.
const tensor_row* find_tensor(std::span<const tensor_row> rows, std::string_view name) noexcept;

// Values that a shape has: [n], or [1,n] as of a batch of one.
// Errors: invalid_value, with the tensor's name as param, as of all below.
result<std::size_t> count_of(const tensor_row& row, std::span<const std::int64_t> shape);
// `data`: an array, of arrays or of values, or one value alone.
result<tensor_values> values_of_json(const tensor_row& row, const json& data, std::size_t count);
// Little endian; a text has its length in 4 bytes before it. All of `data` has to be used.
result<tensor_values> values_of_bytes(const tensor_row& row, std::string_view data,
                                      std::size_t count);
void append_bytes(std::string& out, tensor_type type, const tensor_values& values);

} // namespace baton::gateway
