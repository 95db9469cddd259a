#include "gateway/kserve_call.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace baton::gateway {
namespace {

constexpr std::size_t tensor_name_bytes_max = 256; // a word, not a document

// What an input or output may say that needs memory shared with the server, or labels of classes.
constexpr unsupported_field unsupported_of_tensors[] = {
    {"shared_memory_region", ""},
    {"shared_memory_offset", "0"},
    {"shared_memory_byte_size", ""},
    {"classification", "0"},
};

// Names from a client come back in messages.
std::string shown(std::string_view name) {
  std::string out(name.substr(0, 64));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

struct body_parts {
  std::string_view text;  // JSON
  std::string_view bytes; // of tensors
};

result<body_parts> split(std::string_view body, std::string_view json_bytes) {
  if (json_bytes.empty()) {
    return body_parts{body, {}};
  }
  constexpr const char* header = "Inference-Header-Content-Length";
  std::size_t size = 0;
  const auto* end = json_bytes.data() + json_bytes.size();
  const auto [stop, bad] = std::from_chars(json_bytes.data(), end, size);
  if (bad != std::errc{} || stop != end) {
    return fail_param(errc::invalid_request, header, "{} must be a number of bytes", header);
  }
  if (size > body.size()) {
    return fail_param(errc::invalid_request, header,
                      "{} says {} bytes of JSON, and the body has {}", header, size, body.size());
  }
  if (size == 0) {
    return fail_param(errc::invalid_request, header,
                      "a body of bytes alone is for models with one input: send JSON");
  }
  return body_parts{body.substr(0, size), body.substr(size)};
}

// Reads the members of an infer request; the first mistake is kept by the reader of the root.
class infer_reader {
public:
  infer_reader(field_reader& fields, std::string_view bytes) : fields_(fields), bytes_(bytes) {}

  result<kserve_call> read() {
    call_.id = fields_.text("id", {}, kserve_id_bytes_max);
    read_list("inputs", [this](const json& one, const std::string& at) { read_input(one, at); });
    read_list("outputs", [this](const json& one, const std::string& at) { read_output(one, at); });
    if (!bytes_.empty()) {
      fields_.refuse(errc::invalid_value, "inputs",
                     fmt::format("{} bytes behind the JSON are of no input", bytes_.size()));
    }
    return std::move(call_);
  }

  void read_parameters(const json& all) {
    for (auto it = all.begin(); it != all.end(); ++it) {
      if (it.key() == "binary_data_output") {
        call_.is_binary = it->is_boolean() && it->get<bool>();
        if (!it->is_boolean()) {
          fields_.refuse_type("parameters.binary_data_output", "true or false", *it);
        }
      } else if (!it->is_null()) {
        keep(add_parameter(call_, it.key(), it->dump()));
      }
    }
  }

private:
  void keep(result<void> ok) {
    if (!ok) {
      fields_.refuse(ok.error());
    }
  }

  template <class Read>
  void read_list(std::string_view name, Read read) {
    const auto* list = fields_.find(name);
    if (!list) {
      return;
    }
    if (!list->is_array()) {
      return fields_.refuse_type(name, "an array", *list);
    }
    for (std::size_t i = 0; i < list->size() && !fields_.has_failed(); ++i) {
      const auto at = fmt::format("{}[{}]", name, i);
      if (!(*list)[i].is_object()) {
        return fields_.refuse_type(at, "an object", (*list)[i]);
      }
      read((*list)[i], at + ".");
    }
  }

  static std::vector<std::int64_t> read_shape(field_reader& one) {
    std::vector<std::int64_t> shape;
    const auto* list = one.require("shape");
    const bool is_list = list && list->is_array();
    if (list && !is_list) {
      one.refuse_type("shape", "an array of integers", *list);
    }
    for (std::size_t i = 0; is_list && i < std::min(list->size(), tensor_dims_max + 1); ++i) {
      const auto& n = (*list)[i];
      const bool is_huge = n.is_number_unsigned() && n.get<std::uint64_t>() > INT64_MAX;
      if (!n.is_number_integer()) {
        one.refuse_type("shape", "an array of integers", n);
        break;
      }
      shape.push_back(is_huge ? INT64_MAX : n.get<std::int64_t>());
    }
    return shape;
  }

  void read_input(const json& value, const std::string& at) {
    field_reader one(value, at);
    one.require("name");
    one.require("datatype");
    const auto name = one.text("name", {}, tensor_name_bytes_max);
    const auto datatype = one.text("datatype", {}, tensor_name_bytes_max);
    const auto shape = read_shape(one);
    std::optional<std::size_t> size;
    one.object(
        "parameters",
        [&size](field_reader& inner) {
          if (inner.find("binary_data_size")) {
            size = static_cast<std::size_t>(
                inner.integer("binary_data_size", 0, 0, std::numeric_limits<std::int64_t>::max()));
          }
        },
        unsupported_of_tensors);
    const auto* data = one.find("data");
    if (auto ok = one.finish(); !ok) {
      return fields_.refuse(ok.error());
    }
    const auto row = input_named(name, datatype);
    const auto count = row ? count_of(**row, shape) : row.error();
    if (!count) {
      return fields_.refuse(count.error());
    }
    if (!data == !size) {
      return fields_.refuse(errc::invalid_value, name,
                            fmt::format("input '{}' must have one of 'data' and "
                                        "'parameters.binary_data_size'",
                                        name));
    }
    keep(add_input(call_, **row,
                   data ? values_of_json(**row, *data, *count) : take(**row, *size, *count)));
  }

  // The bytes of tensors lie behind one another, in the order of the inputs.
  result<tensor_values> take(const tensor_row& row, std::size_t size, std::size_t count) {
    if (size > bytes_.size()) {
      return fail_param(errc::invalid_value, row.name,
                        "input '{}' is said to have {} bytes, and {} are left of the body",
                        row.name, size, bytes_.size());
    }
    const auto mine = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return values_of_bytes(row, mine, count);
  }

  void read_output(const json& value, const std::string& at) {
    field_reader one(value, at);
    one.require("name");
    const auto name = one.text("name", {}, tensor_name_bytes_max);
    bool is_binary = call_.is_binary;
    one.object(
        "parameters",
        [&](field_reader& inner) { is_binary = inner.boolean("binary_data", is_binary); },
        unsupported_of_tensors);
    if (auto ok = one.finish(); !ok) {
      return fields_.refuse(ok.error());
    }
    keep(add_output(call_, name, is_binary));
  }

  field_reader& fields_;
  std::string_view bytes_; // that no input has taken
  kserve_call call_;
};

// Parameters in which there are schemas: their members keep their order.
bool has_schema(std::string_view name, const json& value) noexcept {
  return value.is_object() && (name == "structured_outputs" || name == "guided_decoding" ||
                               name == "guided_json" || name == "response_format");
}

// One member of a generate body: an input, or a parameter.
result<void> add_member(kserve_call& call, const std::string& name, const json& value,
                        std::string_view body, std::span<const std::string_view> path) {
  if (value.is_null()) {
    return {};
  }
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
    if (row->is_parameter) { // which may be a text of a number
      return add_parameter(call, name,
                           value.is_array() && !row->is_list ? value.front().dump() : value.dump());
    }
    return add_input(call, *row, values_of_json(*row, value, count));
  }
  return add_parameter(
      call, name, has_schema(name, value) ? std::string(raw_member(body, path)) : value.dump());
}

} // namespace

result<const tensor_row*> input_named(std::string_view name, std::string_view datatype) {
  const auto* row = find_tensor(kserve_inputs(), name);
  if (!row) {
    return fail_param(errc::invalid_value, shown(name), "unexpected inference input '{}'",
                      shown(name));
  }
  if (datatype != datatype_of(row->type)) {
    return fail_param(errc::invalid_value, name,
                      "input '{}' has the datatype '{}', the model takes '{}'", name,
                      shown(datatype), datatype_of(row->type));
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
    return fail_param(errc::invalid_value, shown(name), "unexpected inference output '{}'",
                      shown(name));
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
  if (call.parameters.size() == kserve_parameters_max) {
    return fail(errc::invalid_value, "there are more than {} parameters", kserve_parameters_max);
  }
  const auto [at, is_new] = call.parameters.try_emplace(std::string(name), std::move(text));
  if (!is_new) {
    return fail_param(errc::invalid_value, shown(name), "parameter '{}' comes twice", shown(name));
  }
  return {};
}

result<kserve_call> parse_infer(std::string_view body, std::string_view json_bytes,
                                const request_limits& limits) {
  const auto parts = split(body, json_bytes);
  if (!parts) {
    return parts.error();
  }
  auto parsed = parse_body(parts->text, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  infer_reader reader(fields, parts->bytes);
  if (const auto* all = fields.find("parameters")) {
    if (all->is_object()) {
      reader.read_parameters(*all);
    } else {
      fields.refuse_type("parameters", "an object", *all);
    }
  }
  fields.require("inputs");
  auto call = reader.read();
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  return call;
}

result<kserve_call> parse_generate(std::string_view body, const request_limits& limits) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  kserve_call call;
  call.id = fields.text("id", {}, kserve_id_bytes_max);
  const auto* inner = fields.find("parameters");
  if (inner && !inner->is_object()) {
    fields.refuse_type("parameters", "an object", *inner);
  }
  // What is no member of the extension's own is the model's.
  if (fields.has_failed()) {
    return fields.finish().error();
  }
  for (auto it = parsed->begin(); it != parsed->end(); ++it) {
    const std::string_view path[] = {it.key()};
    if (it.key() == "id" || it.key() == "parameters") {
      continue;
    }
    if (auto ok = add_member(call, it.key(), *it, body, path); !ok) {
      return ok.error();
    }
  }
  for (auto it = inner ? inner->begin() : json::const_iterator(); inner && it != inner->end();
       ++it) {
    const std::string_view path[] = {"parameters", it.key()};
    if (auto ok = add_member(call, it.key(), *it, body, path); !ok) {
      return ok.error();
    }
  }
  return call;
}

} // namespace baton::gateway
