// Parses the body of KServe's `infer` for any model. The body is JSON; the bytes of tensors follow
// it if a header gives the size of the JSON (Triton's extension binary_tensor_data). The reader of
// the tensors interprets them. Pure.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/request/json_reader.hpp"
#include "gateway/request/tensor_data.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t kserve_parameters_max = 64;  // more than any model has
inline constexpr std::size_t kserve_id_bytes_max = 256;   // echoed in every answer
inline constexpr std::size_t tensor_name_bytes_max = 256; // short names only

// Exactly one of `data` and `bytes` holds the values.
struct given_input {
  std::string name, datatype;
  std::vector<std::int64_t> shape;
  const json* data = nullptr;
  std::string_view bytes; // if `data` is null
};

// Callbacks for the tensors, in the order of the body; the first error ends the parse.
struct infer_readers {
  std::function<result<void>(const given_input&)> input;
  std::function<result<void>(const std::string& name, bool is_binary)> output;
};

// JSON text by name: a schema's members keep their order.
using kserve_parameter_map = std::map<std::string, std::string, std::less<>>;

struct infer_head {
  std::string id;
  kserve_parameter_map parameters;
  bool is_binary = false; // the default for outputs
};

// Errors: invalid_value (too many, duplicate).
result<void> add_parameter(kserve_parameter_map& all, std::string_view name, std::string text);

// `json_bytes`: the header Inference-Header-Content-Length; empty: the whole body is JSON.
// Arguments of `then` are valid during the call only. Errors: invalid_request, invalid_value,
// unsupported_parameter, with the name as param; those of `then`.
result<infer_head> read_infer_body(std::string_view body, std::string_view json_bytes,
                                   const request_limits& limits, const infer_readers& then);

// Reads the members of a body of Triton's extension `generate`, and of its "parameters", except
// "id". It mixes a model's inputs and parameters. `path`: the location, for raw_member. Errors: as
// above.
using generate_reader = std::function<result<void>(const std::string& name, const json& value,
                                                   std::span<const std::string_view> path)>;
result<std::string> read_generate_body(std::string_view body, const request_limits& limits,
                                       const generate_reader& then); // -> its id

} // namespace baton::gateway
