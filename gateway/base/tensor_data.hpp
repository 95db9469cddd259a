// Values of tensors of any of KServe's datatypes, in JSON and in bytes: little endian, row by row,
// of BYTES each element behind its length in four bytes. Pure. The few tensors of a language model
// have a table of their own (kserve_tensor.hpp).
#pragma once

#include "gateway/base/datatype.hpp"
#include "gateway/base/json_reader.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// "[2,-1]"
std::string shape_text(std::span<const std::int64_t> shape);

// All errors name the tensor, as `name`, in words and as param.
// Values that a shape has. Errors: invalid_value (a negative size, more than any tensor has).
result<std::size_t> element_count(std::string_view name, std::span<const std::int64_t> shape);
// `data`: an array, of arrays or of values, or one value alone. Errors: invalid_value (a value of
// another type, another count), unsupported_parameter (FP16 and BF16 have no JSON).
result<std::string> bytes_of_json(std::string_view name, std::string_view datatype,
                                  const json& data, std::size_t count);
// Errors: invalid_value (bytes that are not those of so many elements).
result<void> check_bytes(std::string_view name, std::string_view datatype, std::string_view bytes,
                         std::size_t count);
// Requires: check_bytes. The values as the text of a JSON array, or of the one value alone where
// `is_value` says so. Errors: invalid_value (FP16, BF16; a number that is none; BYTES that are not
// UTF-8).
result<void> append_json(std::string& out, std::string_view name, std::string_view datatype,
                         std::string_view bytes, bool is_value = false);

} // namespace baton::gateway
