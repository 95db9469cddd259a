#include "gateway/api/kserve/kserve_openapi.hpp"

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/openai/openai_openapi.hpp"
#include "gateway/request/openapi_schema.hpp"

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered value_schema(tensor_type type) {
  switch (type) {
  case tensor_type::boolean:
    return type_schema("boolean");
  case tensor_type::bytes:
    return type_schema("string");
  case tensor_type::fp32:
    return type_schema("number");
  case tensor_type::int32:
    return {{"type", "integer"}, {"minimum", INT32_MIN}, {"maximum", INT32_MAX}};
  case tensor_type::uint32:
    return {{"type", "integer"}, {"minimum", 0}, {"maximum", UINT32_MAX}};
  case tensor_type::uint64:
    return {{"type", "integer"}, {"minimum", 0}};
  }
  return ordered::object();
}

// An input as a member: its value, or a list with it.
ordered member_schema(const tensor_row& row) {
  auto list = list_schema(value_schema(row.type), row.is_list ? tensor_values_max : 1);
  return any_schema({value_schema(row.type), std::move(list), type_schema("null")});
}

ordered id_schema() {
  return {{"type", {"string", "null"}}, {"maxLength", kserve_id_bytes_max}};
}

ordered tensor_names(std::span<const tensor_row> rows) {
  auto names = ordered::array();
  for (const auto& row : rows) {
    names.push_back(row.name);
  }
  return {{"enum", std::move(names)}};
}

// Numbers may be given as strings.
ordered parameter_members(const ordered& known, const gateway_config& config) {
  const auto anything =
      any_schema({type_schema("string"), type_schema("number"), type_schema("boolean"),
                  type_schema("object"), type_schema("array"), type_schema("null")});
  auto members = ordered::object();
  for (const auto& name : kserve_parameters(config)) {
    members[name] = known.contains(name)
                        ? any_schema({known[name], type_schema("string"), type_schema("null")})
                        : anything;
  }
  return members;
}

constexpr const char* of_language_models =
    "For a language model; a worker model takes the tensors in its metadata";

} // namespace

ordered kserve_generate_schema(const gateway_config& config) {
  const auto known = sampling_schemas(config.request);
  auto members = parameter_members(known, config);
  for (const auto& row : kserve_inputs()) {
    auto& member = members[std::string(row.name)];
    if (!row.is_parameter) {
      member = member_schema(row);
    } else if (known.contains(row.name)) { // a list of one value, as in a tensor
      member["anyOf"].push_back(list_schema(known[std::string(row.name)], 1));
    }
  }
  auto parameters = members;
  members["id"] = id_schema();
  members["text_input"] =
      any_schema({type_schema("string"), list_schema(type_schema("string"), 1)});
  members["parameters"] = any_schema(
      {{{"type", "object"}, {"properties", std::move(parameters)}}, type_schema("null")});
  return {{"type", "object"},
          {"description", of_language_models},
          {"required", {"text_input"}},
          {"properties", std::move(members)}};
}

ordered kserve_infer_schema(const gateway_config& config) {
  const auto known = sampling_schemas(config.request);
  auto parameters = parameter_members(known, config);
  parameters["binary_data_output"] = type_schema("boolean");
  const ordered input{{"type", "object"},
                      {"required", {"name", "datatype", "shape"}},
                      {"properties",
                       {{"name", tensor_names(kserve_inputs())},
                        {"datatype", {{"enum", {"BOOL", "INT32", "UINT64", "FP32", "BYTES"}}}},
                        {"shape", list_schema(type_schema("integer"), tensor_dims_max)},
                        {"parameters", type_schema("object")},
                        {"data", any_schema({type_schema("array"), type_schema("string"),
                                             type_schema("number"), type_schema("boolean")})}}}};
  const ordered output{
      {"type", "object"},
      {"required", {"name"}},
      {"properties",
       {{"name", tensor_names(kserve_outputs())}, {"parameters", type_schema("object")}}}};
  return {{"type", "object"},
          {"description", of_language_models},
          {"required", {"inputs"}},
          {"properties",
           {{"id", id_schema()},
            {"inputs", list_schema(input, kserve_inputs().size())},
            {"outputs",
             any_schema({list_schema(output, kserve_outputs().size()), type_schema("null")})},
            {"parameters", any_schema({{{"type", "object"}, {"properties", std::move(parameters)}},
                                       type_schema("null")})}}}};
}

ordered kserve_index_schema(const gateway_config& /*config*/) {
  return {{"type", "object"}, {"properties", {{"ready", {{"type", {"boolean", "null"}}}}}}};
}

ordered kserve_load_schema(const gateway_config& /*config*/) {
  return {{"type", "object"}, {"properties", {{"parameters", {{"type", {"object", "null"}}}}}}};
}

ordered kserve_error_schema() {
  return {{"type", "object"},
          {"required", {"error"}},
          {"properties", {{"error", type_schema("string")}}}};
}

} // namespace baton::gateway
