#include "gateway/api/kserve/calls/kserve_call.hpp"

#include "gateway/base/json_text.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Parameters that contain schemas: their members keep their order.
bool has_schema(std::string_view name, const json& value) noexcept {
  return value.is_object() && (name == "structured_outputs" || name == "guided_decoding" ||
                               name == "guided_json" || name == "response_format");
}

// One member of a generate body: an input or a parameter.
result<void> add_member(kserve_call& call, const std::string& name, const json& value,
                        std::string_view body, std::span<const std::string_view> path) {
  if (const auto* row = find_tensor(kserve_inputs(), name)) {
    const auto count = value.is_array() ? value.size() : 1;
    if (!row->is_list && count != 1) {
      return fail_param(errc::invalid_value, name, "'{}' has {} values, the model takes one", name,
                        count);
    }
    if (count > tensor_values_max) {
      return fail_param(errc::invalid_value, name, "'{}' has {} values of at most {}", name, count,
                        tensor_values_max);
    }
    if (row->is_parameter) { // may be a number as text
      return add_parameter(call, name,
                           json_text(value.is_array() && !row->is_list ? value.front() : value));
    }
    return add_input(call, *row, values_of_json(*row, value, count));
  }
  auto text = has_schema(name, value) ? raw_member(body, path) : json_text(value);
  return text ? add_parameter(call, name, *std::move(text)) : text.error();
}

} // namespace

result<const tensor_row*> input_named(std::string_view name, std::string_view datatype) {
  const auto* row = find_tensor(kserve_inputs(), name);
  if (!row) {
    return fail_param(errc::invalid_value, shown_name(name), "unexpected inference input '{}'",
                      shown_name(name));
  }
  if (datatype != datatype_of(row->type)) {
    return fail_param(errc::invalid_value, name,
                      "input '{}' has the datatype '{}', the model takes '{}'", name,
                      shown_name(datatype), datatype_of(row->type));
  }
  return row;
}

result<void> add_input(kserve_call& call, const tensor_row& row, result<tensor_values> values) {
  if (!values) {
    return values.error();
  }
  if (std::any_of(call.inputs.begin(), call.inputs.end(),
                  [&](const kserve_input& i) { return i.row == &row; })) {
    return fail_param(errc::invalid_value, row.name, "input '{}' comes twice", row.name);
  }
  call.inputs.push_back({&row, *std::move(values)});
  return {};
}

result<void> add_output(kserve_call& call, std::string_view name, bool is_binary) {
  const auto* row = find_tensor(kserve_outputs(), name);
  if (!row) {
    return fail_param(errc::invalid_value, shown_name(name), "unexpected inference output '{}'",
                      shown_name(name));
  }
  const auto which = static_cast<kserve_output>(row - kserve_outputs().data());
  if (std::any_of(call.outputs.begin(), call.outputs.end(),
                  [&](const kserve_asked_output& o) { return o.which == which; })) {
    return fail_param(errc::invalid_value, name, "output '{}' is asked for twice", name);
  }
  call.outputs.push_back({which, is_binary});
  return {};
}

result<void> add_parameter(kserve_call& call, std::string_view name, std::string text) {
  return add_parameter(call.parameters, name, std::move(text));
}

result<kserve_call> parse_infer(std::string_view body, std::string_view json_bytes,
                                const request_limits& limits) {
  kserve_call call;
  const infer_readers readers{[&call](const given_input& given) -> result<void> {
                                const auto row = input_named(given.name, given.datatype);
                                const auto count = row ? count_of(**row, given.shape) : row.error();
                                if (!count) {
                                  return count.error();
                                }
                                return add_input(call, **row,
                                                 given.data
                                                     ? values_of_json(**row, *given.data, *count)
                                                     : values_of_bytes(**row, given.bytes, *count));
                              },
                              [&call](const std::string& name, bool is_binary) {
                                return add_output(call, name, is_binary);
                              }};
  auto head = read_infer_body(body, json_bytes, limits, readers);
  if (!head) {
    return head.error();
  }
  call.id = std::move(head->id);
  call.parameters = std::move(head->parameters);
  call.is_binary = head->is_binary;
  return call;
}

result<kserve_call> parse_generate(std::string_view body, const request_limits& limits) {
  kserve_call call;
  auto id = read_generate_body(
      body, limits,
      [&](const std::string& name, const json& value, std::span<const std::string_view> path) {
        return add_member(call, name, value, body, path);
      });
  if (!id) {
    return id.error();
  }
  call.id = *std::move(id);
  return call;
}

} // namespace baton::gateway
