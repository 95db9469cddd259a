// Values of tensors of KServe's datatypes, in JSON and in bytes: little-endian, row by row. Each
// element of BYTES follows its length in four bytes. Pure. Tensors of a language model have their
// own table (kserve_tensor.hpp).
#pragma once

#include "gateway/request/datatype.hpp"
#include "gateway/request/json_reader.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// A name from a client, as messages show it.
std::string shown_name(std::string_view name);

// "[2,-1]"
std::string shape_text(std::span<const std::int64_t> shape);

// All errors name the tensor, as `name`, in the message and as param.
// The number of values of a shape. Errors: invalid_value (a negative size, too many values).
result<std::size_t> element_count(std::string_view name, std::span<const std::int64_t> shape);
// `data`: a flat or nested array, or a single value. Errors: invalid_value (a wrong type or count),
// unsupported_parameter (FP16 and BF16 have no JSON form).
result<std::string> bytes_of_json(std::string_view name, std::string_view datatype,
                                  const json& data, std::size_t count);
// Errors: invalid_value (the bytes are not those of `count` elements).
result<void> check_bytes(std::string_view name, std::string_view datatype, std::string_view bytes,
                         std::size_t count);
// Requires: check_bytes. Appends the values as a JSON array, or the single value if `is_value`.
// Errors: unsupported_parameter (FP16, BF16), invalid_value (a number that is not finite; BYTES
// that are not UTF-8).
result<void> append_json(std::string& out, std::string_view name, std::string_view datatype,
                         std::string_view bytes, bool is_value = false);

} // namespace baton::gateway
