// KServe's tensor datatypes: their names and sizes, and their names in other formats. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace baton::gateway {

struct datatype_row {
  std::string_view name;
  std::size_t bytes;         // per element; 0: variable
  std::string_view contents; // gRPC's field of its values; empty: raw bytes only, no JSON
};
inline constexpr std::array datatypes{
    datatype_row{"BOOL", 1, "bool_contents"},
    datatype_row{"UINT8", 1, "uint_contents"},
    datatype_row{"UINT16", 2, "uint_contents"},
    datatype_row{"UINT32", 4, "uint_contents"},
    datatype_row{"UINT64", 8, "uint64_contents"},
    datatype_row{"INT8", 1, "int_contents"},
    datatype_row{"INT16", 2, "int_contents"},
    datatype_row{"INT32", 4, "int_contents"},
    datatype_row{"INT64", 8, "int64_contents"},
    datatype_row{"FP16", 2, ""},
    datatype_row{"FP32", 4, "fp32_contents"},
    datatype_row{"FP64", 8, "fp64_contents"},
    datatype_row{"BF16", 2, ""},
    datatype_row{"BYTES", 0, "bytes_contents"},
};

// Null: unknown name.
constexpr const datatype_row* find_datatype(std::string_view name) noexcept {
  for (const auto& row : datatypes) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}
constexpr bool is_datatype(std::string_view name) noexcept {
  return find_datatype(name) != nullptr;
}

// The name in config.pbtxt: "TYPE_FP32", "TYPE_STRING" for BYTES.
inline std::string config_type_of(std::string_view datatype) {
  return "TYPE_" + std::string(datatype == "BYTES" ? "STRING" : datatype);
}
// Empty: unknown type.
inline std::string datatype_of_config(std::string_view config_type) {
  for (const auto& row : datatypes) {
    if (config_type == config_type_of(row.name)) {
      return std::string(row.name);
    }
  }
  return {};
}

} // namespace baton::gateway
