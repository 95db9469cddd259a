#include "gateway/api/kserve/calls/kserve_body.hpp"

#include "gateway/base/json_text.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace baton::gateway {
namespace {

// Fields of inputs and outputs for shared memory or classification labels.
constexpr unsupported_field unsupported_of_tensors[] = {
    {"shared_memory_region", ""},
    {"shared_memory_offset", "0"},
    {"shared_memory_byte_size", ""},
    {"classification", "0"},
};

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
    return fail_param(errc::invalid_request, header, "{} is {} bytes of JSON, but the body has {}",
                      header, size, body.size());
  }
  if (size == 0) {
    return fail_param(errc::invalid_request, header,
                      "a body of bytes alone is for models with one input: send JSON");
  }
  return body_parts{body.substr(0, size), body.substr(size)};
}

// Reads the members of an infer request; the root's reader keeps the first error.
class infer_reader {
public:
  infer_reader(field_reader& fields, std::string_view bytes, const infer_readers& then)
      : fields_(fields), bytes_(bytes), then_(then) {}

  infer_head read() {
    head_.id = fields_.text("id", {}, kserve_id_bytes_max);
    read_list("inputs", [this](const json& one, const std::string& at) { read_input(one, at); });
    read_list("outputs", [this](const json& one, const std::string& at) { read_output(one, at); });
    if (!bytes_.empty()) {
      fields_.refuse(errc::invalid_value, "inputs",
                     fmt::format("{} bytes after the JSON match no input", bytes_.size()));
    }
    return std::move(head_);
  }

  void read_parameters(const json& all) {
    for (auto it = all.begin(); it != all.end(); ++it) {
      if (it.key() == "binary_data_output") {
        head_.is_binary = it->is_boolean() && it->get<bool>();
        if (!it->is_boolean()) {
          fields_.refuse_type("parameters.binary_data_output", "true or false", *it);
        }
      } else if (!it->is_null()) {
        keep(add_parameter(head_.parameters, it.key(), json_text(*it)));
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
    const auto most = limits::dimensions_max + 1; // one too many is still detected
    for (std::size_t i = 0; is_list && i < std::min(list->size(), most); ++i) {
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
    given_input given;
    given.name = one.text("name", {}, tensor_name_bytes_max);
    given.datatype = one.text("datatype", {}, tensor_name_bytes_max);
    given.shape = read_shape(one);
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
    given.data = one.find("data");
    if (auto ok = one.finish(); !ok) {
      return fields_.refuse(ok.error());
    }
    const auto name = shown_name(given.name);
    if (!given.data == !size) {
      return fields_.refuse({errc::invalid_value,
                             fmt::format("input '{}' must have one of 'data' and "
                                         "'parameters.binary_data_size'",
                                         name),
                             name});
    }
    if (size) {
      if (*size > bytes_.size()) {
        return fields_.refuse({errc::invalid_value,
                               fmt::format("input '{}' declares {} bytes, but the body has {} left",
                                           name, *size, bytes_.size()),
                               name});
      }
      given.bytes = bytes_.substr(0, *size); // inputs are contiguous, in this order
      bytes_.remove_prefix(*size);
    }
    keep(then_.input(given));
  }

  void read_output(const json& value, const std::string& at) {
    field_reader one(value, at);
    one.require("name");
    const auto name = one.text("name", {}, tensor_name_bytes_max);
    bool is_binary = head_.is_binary;
    one.object(
        "parameters",
        [&](field_reader& inner) { is_binary = inner.boolean("binary_data", is_binary); },
        unsupported_of_tensors);
    if (auto ok = one.finish(); !ok) {
      return fields_.refuse(ok.error());
    }
    keep(then_.output(name, is_binary));
  }

  field_reader& fields_;
  std::string_view bytes_; // not yet consumed by an input
  const infer_readers& then_;
  infer_head head_;
};

} // namespace

result<void> add_parameter(kserve_parameter_map& all, std::string_view name, std::string text) {
  if (all.size() == kserve_parameters_max) {
    return fail(errc::invalid_value, "there are more than {} parameters", kserve_parameters_max);
  }
  const auto [at, is_new] = all.try_emplace(std::string(name), std::move(text));
  if (!is_new) {
    return fail_param(errc::invalid_value, shown_name(name), "parameter '{}' comes twice",
                      shown_name(name));
  }
  return {};
}

result<infer_head> read_infer_body(std::string_view body, std::string_view json_bytes,
                                   const request_limits& limits, const infer_readers& then) {
  const auto parts = split(body, json_bytes);
  if (!parts) {
    return parts.error();
  }
  auto parsed = parse_body(parts->text, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  infer_reader reader(fields, parts->bytes, then);
  if (const auto* all = fields.find("parameters")) {
    if (all->is_object()) {
      reader.read_parameters(*all);
    } else {
      fields.refuse_type("parameters", "an object", *all);
    }
  }
  fields.require("inputs");
  auto head = reader.read();
  if (auto ok = fields.finish(); !ok) {
    return ok.error();
  }
  return head;
}

result<std::string> read_generate_body(std::string_view body, const request_limits& limits,
                                       const generate_reader& then) {
  auto parsed = parse_body(body, limits.json_depth_max);
  if (!parsed) {
    return parsed.error();
  }
  field_reader fields(*parsed);
  auto id = fields.text("id", {}, kserve_id_bytes_max);
  const auto* inner = fields.find("parameters");
  if (inner && !inner->is_object()) {
    fields.refuse_type("parameters", "an object", *inner);
  }
  // All other members of the body belong to the model.
  if (fields.has_failed()) {
    return fields.finish().error();
  }
  for (auto it = parsed->begin(); it != parsed->end(); ++it) {
    const std::string_view path[] = {it.key()};
    if (it.key() == "id" || it.key() == "parameters" || it->is_null()) {
      continue;
    }
    if (auto ok = then(it.key(), *it, path); !ok) {
      return ok.error();
    }
  }
  for (auto it = inner ? inner->begin() : json::const_iterator(); inner && it != inner->end();
       ++it) {
    const std::string_view path[] = {"parameters", it.key()};
    if (it->is_null()) {
      continue;
    }
    if (auto ok = then(it.key(), *it, path); !ok) {
      return ok.error();
    }
  }
  return id;
}

} // namespace baton::gateway
