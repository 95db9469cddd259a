#include "gateway/kserve_openapi.hpp"

#include "gateway/kserve_request.hpp"

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered typed(const char* type) {
  return {{"type", type}};
}

ordered any_of(std::initializer_list<ordered> all) {
  auto any = ordered::array();
  for (const auto& one : all) {
    any.push_back(one);
  }
  return {{"anyOf", std::move(any)}};
}

ordered list_of(ordered items, std::size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"maxItems", most}};
}

ordered value_of(tensor_type type) {
  switch (type) {
  case tensor_type::boolean:
    return typed("boolean");
  case tensor_type::bytes:
    return typed("string");
  case tensor_type::fp32:
    return typed("number");
  case tensor_type::int32:
    return {{"type", "integer"}, {"minimum", INT32_MIN}, {"maximum", INT32_MAX}};
  case tensor_type::uint32:
    return {{"type", "integer"}, {"minimum", 0}, {"maximum", UINT32_MAX}};
  case tensor_type::uint64:
    return {{"type", "integer"}, {"minimum", 0}};
  }
  return ordered::object();
}

// An input as a member: its value, or a list of it.
ordered member_of(const tensor_row& row) {
  auto list = list_of(value_of(row.type), row.is_list ? tensor_values_max : 1);
  return any_of({value_of(row.type), std::move(list), typed("null")});
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

// Numbers may come as texts.
ordered parameter_members(const ordered& known, const gateway_config& config) {
  const auto anything = any_of({typed("string"), typed("number"), typed("boolean"), typed("object"),
                                typed("array"), typed("null")});
  auto members = ordered::object();
  for (const auto& name : kserve_parameters(config)) {
    members[name] =
        known.contains(name) ? any_of({known[name], typed("string"), typed("null")}) : anything;
  }
  return members;
}

constexpr const char* of_language_models =
    "Of a language model; a worker model takes the tensors that its metadata names";

} // namespace

ordered kserve_generate_schema(const ordered& known, const gateway_config& config) {
  auto members = parameter_members(known, config);
  for (const auto& row : kserve_inputs()) {
    auto& member = members[std::string(row.name)];
    if (!row.is_parameter) {
      member = member_of(row);
    } else if (known.contains(row.name)) { // a list of one, as of a tensor
      member["anyOf"].push_back(list_of(known[std::string(row.name)], 1));
    }
  }
  auto parameters = members;
  members["id"] = id_schema();
  members["text_input"] = any_of({typed("string"), list_of(typed("string"), 1)});
  members["parameters"] =
      any_of({{{"type", "object"}, {"properties", std::move(parameters)}}, typed("null")});
  return {{"type", "object"},
          {"description", of_language_models},
          {"required", {"text_input"}},
          {"properties", std::move(members)}};
}

ordered kserve_infer_schema(const ordered& known, const gateway_config& config) {
  auto parameters = parameter_members(known, config);
  parameters["binary_data_output"] = typed("boolean");
  const ordered input{
      {"type", "object"},
      {"required", {"name", "datatype", "shape"}},
      {"properties",
       {{"name", tensor_names(kserve_inputs())},
        {"datatype", {{"enum", {"BOOL", "INT32", "UINT64", "FP32", "BYTES"}}}},
        {"shape", list_of(typed("integer"), tensor_dims_max)},
        {"parameters", typed("object")},
        {"data", any_of({typed("array"), typed("string"), typed("number"), typed("boolean")})}}}};
  const ordered output{
      {"type", "object"},
      {"required", {"name"}},
      {"properties", {{"name", tensor_names(kserve_outputs())}, {"parameters", typed("object")}}}};
  return {{"type", "object"},
          {"description", of_language_models},
          {"required", {"inputs"}},
          {"properties",
           {{"id", id_schema()},
            {"inputs", list_of(input, kserve_inputs().size())},
            {"outputs", any_of({list_of(output, kserve_outputs().size()), typed("null")})},
            {"parameters", any_of({{{"type", "object"}, {"properties", std::move(parameters)}},
                                   typed("null")})}}}};
}

ordered kserve_index_schema() {
  return {{"type", "object"}, {"properties", {{"ready", {{"type", {"boolean", "null"}}}}}}};
}

ordered kserve_load_schema() {
  return {{"type", "object"}, {"properties", {{"parameters", {{"type", {"object", "null"}}}}}}};
}

ordered kserve_error_schema() {
  return {
      {"type", "object"}, {"required", {"error"}}, {"properties", {{"error", typed("string")}}}};
}

} // namespace baton::gateway
