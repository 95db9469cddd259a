// The body of KServe's `infer` as far as its form goes, whatever model it is for: JSON, and behind
// it the bytes of tensors where a header says how long the JSON is (Triton's extension
// binary_tensor_data). What the tensors mean is for whoever reads them. Pure.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "gateway/config/config.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

inline constexpr std::size_t kserve_parameters_max = 64;  // more than a model has
inline constexpr std::size_t kserve_id_bytes_max = 256;   // echoed in every answer
inline constexpr std::size_t tensor_name_bytes_max = 256; // a word, not a document

// Names from a client come back in messages.
std::string shown_name(std::string_view name);

// One of the two has its values.
struct said_input {
  std::string name, datatype;
  std::vector<std::int64_t> shape;
  const json* data = nullptr;
  std::string_view bytes; // where `data` is null
};

// What is done with what is read, in its order; the first error ends it.
struct infer_readers {
  std::function<result<void>(const said_input&)> input;
  std::function<result<void>(const std::string& name, bool is_binary)> output;
};

// By name, as JSON text: of a schema the members keep their order.
using kserve_parameter_map = std::map<std::string, std::string, std::less<>>;

struct infer_head {
  std::string id;
  kserve_parameter_map parameters;
  bool is_binary = false; // the outputs, where none is named
};

// Errors: invalid_value (too many, twice).
result<void> add_parameter(kserve_parameter_map& all, std::string_view name, std::string text);

// `json_bytes`: the header Inference-Header-Content-Length; empty: all of the body is JSON. What is
// handed to `then` lives for the call. Errors: invalid_request, invalid_value,
// unsupported_parameter, with the name as param; those of `then`.
result<infer_head> read_infer_body(std::string_view body, std::string_view json_bytes,
                                   const request_limits& limits, const infer_readers& then);

// The members of a body of Triton's extension `generate`, and of its "parameters", but for "id": a
// model's inputs and parameters stand beside one another. `path`: where it is, for raw_member.
// Errors: as above.
using generate_reader = std::function<result<void>(const std::string& name, const json& value,
                                                   std::span<const std::string_view> path)>;
result<std::string> read_generate_body(std::string_view body, const request_limits& limits,
                                       const generate_reader& then); // -> its id

} // namespace baton::gateway
