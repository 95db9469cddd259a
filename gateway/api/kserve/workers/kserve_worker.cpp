#include "gateway/api/kserve/workers/kserve_worker.hpp"

#include "gateway/api/kserve/calls/kserve_body.hpp"
#include "gateway/api/kserve/workers/kserve_raw.hpp"
#include "gateway/request/tensor_data.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace baton::gateway {
namespace {

const worker_tensor* find_tensor(const std::vector<worker_tensor>& all, std::string_view name) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const worker_tensor& t) { return t.name == name; });
  return at == all.end() ? nullptr : &*at;
}

error refusal(std::string_view name, std::string what) {
  return {errc::invalid_value, std::move(what), shown_name(name)};
}

// Adds the batch dimension in front if the model has one.
std::vector<std::int64_t> whole_shape(const worker_tensor& of, const worker_facts& facts) {
  auto shape = of.shape;
  if (facts.max_batch_size > 0) {
    shape.insert(shape.begin(), -1);
  }
  return shape;
}

bool fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared) noexcept {
  return std::equal(shape.begin(), shape.end(), declared.begin(), declared.end(),
                    [](auto n, auto most) { return most == -1 || n == most; });
}

// Checks one tensor by itself.
result<void> check_declared(const worker_facts& facts, std::string_view name,
                            std::string_view datatype, std::span<const std::int64_t> shape) {
  if (facts.inputs.empty()) {
    return is_datatype(datatype)
               ? result<void>()
               : refusal(name, fmt::format("input '{}' has the unknown datatype '{}'",
                                           shown_name(name), shown_name(datatype)));
  }
  const auto* row = find_tensor(facts.inputs, name);
  if (!row) {
    return refusal(name, fmt::format("unexpected inference input '{}'", shown_name(name)));
  }
  if (row->datatype != datatype) {
    return refusal(name, fmt::format("input '{}' has the datatype '{}', the model takes '{}'", name,
                                     shown_name(datatype), row->datatype));
  }
  const auto declared = whole_shape(*row, facts);
  if (!fits(shape, declared)) {
    return refusal(name, fmt::format("input '{}' has the shape {}, the model takes {}", name,
                                     shape_text(shape), shape_text(declared)));
  }
  if (facts.max_batch_size > 0 &&
      (shape.front() < 1 || shape.front() > static_cast<std::int64_t>(facts.max_batch_size))) {
    return refusal(name, fmt::format("input '{}' has a batch of {}, the model takes 1 to {}", name,
                                     shape.front(), facts.max_batch_size));
  }
  return {};
}

// Checks the inputs against each other.
result<void> check_inputs(const worker_facts& facts, const std::vector<tensor>& inputs) {
  for (const auto& row : facts.inputs) {
    const bool is_there = std::any_of(inputs.begin(), inputs.end(),
                                      [&](const tensor& t) { return t.name == row.name; });
    if (!row.is_optional && !is_there) {
      return fail_param(errc::invalid_request, row.name, "input '{}' is required", row.name);
    }
  }
  for (const auto& one : inputs) {
    const bool is_batched = facts.max_batch_size > 0 && !facts.inputs.empty();
    if (is_batched && one.shape.front() != inputs.front().shape.front()) {
      return refusal(one.name, fmt::format("input '{}' has a batch of {}, and input '{}' one of {}",
                                           one.name, one.shape.front(), inputs.front().name,
                                           inputs.front().shape.front()));
    }
  }
  return {};
}

// Triton's own parameters, for a model without sequences. Values that disable them are accepted and
// not passed to the handler. `priority` and `timeout` are read with the queue.
result<bool> is_tritons(std::string_view name, std::string_view text) {
  if (!name.starts_with("sequence_") && !name.starts_with("triton_")) {
    return false;
  }
  if (text == "0" || text == "false" || text == R"("")") {
    return true;
  }
  return fail_param(errc::unsupported_parameter, shown_name(name),
                    "'{}' is not supported by this server", shown_name(name));
}

class worker_reader {
public:
  worker_reader(const worker_view& of, kserve_route route) : facts_(*of.facts) {
    call_.request.model = of.name;
    call_.shape.route = route;
    call_.shape.model = of.name;
    call_.shape.version = of.version;
  }

  const worker_facts& facts() const noexcept { return facts_; }

  // Checks the tensor against the model's declaration; returns its number of values.
  result<std::size_t> begin_input(const std::string& name, std::string_view datatype,
                                  std::span<const std::int64_t> shape) const {
    if (auto ok = check_declared(facts_, name, datatype, shape); !ok) {
      return ok.error();
    }
    const auto& known = call_.request.inputs;
    if (std::any_of(known.begin(), known.end(), [&](const tensor& t) { return t.name == name; })) {
      return refusal(name, fmt::format("input '{}' comes twice", shown_name(name)));
    }
    return element_count(name, shape);
  }
  result<void> add_input(std::string name, std::string datatype, std::vector<std::int64_t> shape,
                         result<std::string> data) {
    if (!data) {
      return data.error();
    }
    call_.request.inputs.push_back(
        {std::move(name), std::move(datatype), std::move(shape), *std::move(data)});
    return {};
  }

  result<void> add_output(std::string_view name, bool is_binary) {
    if (!facts_.outputs.empty() && !find_tensor(facts_.outputs, name)) {
      return refusal(name, fmt::format("unexpected inference output '{}'", shown_name(name)));
    }
    auto& all = call_.shape.outputs;
    if (std::any_of(all.begin(), all.end(),
                    [&](const asked_output& o) { return o.name == name; })) {
      return refusal(name, fmt::format("output '{}' is asked for twice", shown_name(name)));
    }
    all.push_back({std::string(name), is_binary});
    return {};
  }

  result<kserve_worker_call> finish(std::string id, kserve_parameter_map parameters) {
    if (auto ok = check_inputs(facts_, call_.request.inputs); !ok) {
      return ok.error();
    }
    std::string text;
    for (const auto& [name, value] : parameters) {
      const auto is_known = is_tritons(name, value);
      if (!is_known) {
        return is_known.error();
      }
      if (!*is_known) {
        text += text.empty() ? "{" : ",";
        text += json(name).dump(-1, ' ', false, json::error_handler_t::replace) + ":" + value;
      }
    }
    call_.request.parameters = text.empty() ? text : text + "}";
    call_.request.request_id = id;
    call_.shape.id = std::move(id);
    for (const auto& o : call_.shape.outputs) {
      call_.request.outputs.push_back(o.name);
    }
    return std::move(call_);
  }

  kserve_worker_shape& shape() noexcept { return call_.shape; }

private:
  const worker_facts& facts_;
  kserve_worker_call call_;
};

// -- gRPC --

result<std::string> worker_parameter_text(std::string_view name,
                                          const std::optional<grpc_value>& value) {
  const auto* real = value ? std::get_if<double>(&*value) : nullptr;
  if (!value || (real && !std::isfinite(*real))) {
    return fail_param(errc::invalid_value, shown_name(name), "parameter '{}' has no value",
                      shown_name(name));
  }
  return std::visit(
      [](const auto& v) { return json(v).dump(-1, ' ', false, json::error_handler_t::replace); },
      *value);
}

// Nothing: a value does not fit.
template <class Narrow, class Wide>
std::optional<std::string> narrowed(std::string_view wide) {
  std::string out;
  for (; !wide.empty(); wide.remove_prefix(sizeof(Wide))) {
    Wide value;
    std::memcpy(&value, wide.data(), sizeof value);
    const auto narrow = static_cast<Narrow>(value);
    if (static_cast<Wide>(narrow) != value) {
      return std::nullopt;
    }
    out.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  return out;
}

// gRPC fields have no 8-bit and 16-bit numbers.
std::optional<std::string> bytes_of_contents(std::string_view datatype, std::string bytes) {
  if (datatype == "INT8") {
    return narrowed<std::int8_t, std::int32_t>(bytes);
  }
  if (datatype == "INT16") {
    return narrowed<std::int16_t, std::int32_t>(bytes);
  }
  if (datatype == "UINT8") {
    return narrowed<std::uint8_t, std::uint32_t>(bytes);
  }
  if (datatype == "UINT16") {
    return narrowed<std::uint16_t, std::uint32_t>(bytes);
  }
  return bytes;
}

result<void> take_input(worker_reader& reader, grpc_tensor& given) {
  if (auto ok = refuse_parameters(given.parameters, given.name); !ok) {
    return ok;
  }
  const auto count = reader.begin_input(given.name, given.datatype, given.shape);
  if (!count) {
    return count.error();
  }
  if (!given.bytes && *count > 0) {
    return refusal(given.name,
                   fmt::format("input '{}' has no values: neither contents nor raw_input_contents",
                               shown_name(given.name)));
  }
  auto bytes = std::move(given.bytes).value_or(std::string());
  if (!given.contents.empty()) {
    const auto field = find_datatype(given.datatype)->contents;
    if (given.contents != field) {
      return refusal(given.name,
                     fmt::format("input '{}' has its values in {}, but values of {} belong in {}",
                                 shown_name(given.name), given.contents, given.datatype,
                                 field.empty() ? "raw_input_contents" : field));
    }
    auto values = bytes_of_contents(given.datatype, std::move(bytes));
    if (!values) {
      return refusal(given.name, fmt::format("input '{}' has a value that is not of type {}",
                                             shown_name(given.name), given.datatype));
    }
    bytes = *std::move(values);
  }
  if (auto ok = check_bytes(given.name, given.datatype, bytes, *count); !ok) {
    return ok;
  }
  return reader.add_input(std::move(given.name), std::move(given.datatype), std::move(given.shape),
                          std::move(bytes));
}

// -- generate --

// The shape for a count of values: the last open dimension takes them, the others are 1.
result<std::vector<std::int64_t>> shape_for(const worker_tensor& of, const worker_facts& facts,
                                            std::size_t count) {
  auto shape = of.shape;
  std::int64_t fixed = 1;
  std::int64_t* open = nullptr;
  for (auto& n : shape) {
    if (n == -1) {
      n = 1;
      open = &n;
    } else {
      fixed *= n;
    }
  }
  if (open && fixed > 0) {
    *open = static_cast<std::int64_t>(count) / fixed;
    fixed *= *open;
  }
  if (fixed != static_cast<std::int64_t>(count)) {
    return refusal(of.name, fmt::format("'{}' has {} values, which do not fit the shape {}",
                                        of.name, count, shape_text(of.shape)));
  }
  if (facts.max_batch_size > 0) {
    shape.insert(shape.begin(), 1);
  }
  return shape;
}

std::size_t count_values(const json& of) {
  if (!of.is_array()) {
    return 1;
  }
  std::size_t count = 0;
  for (const auto& one : of) {
    count += count_values(one);
  }
  return count;
}

result<void> take_member(worker_reader& reader, kserve_parameter_map& parameters,
                         const std::string& name, const json& value) {
  const auto& facts = reader.facts();
  const auto* row = find_tensor(facts.inputs, name);
  if (!row) {
    if (value.is_structured()) {
      return fail_param(errc::invalid_value, shown_name(name),
                        "'{}' is no input of the model, and a parameter is a text, a number, true "
                        "or false",
                        shown_name(name));
    }
    return add_parameter(parameters, name,
                         value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  auto shape = shape_for(*row, facts, count_values(value));
  if (!shape) {
    return shape.error();
  }
  const auto count = reader.begin_input(name, row->datatype, *shape);
  if (!count) {
    return count.error();
  }
  return reader.add_input(name, row->datatype, *std::move(shape),
                          bytes_of_json(name, row->datatype, value, *count));
}

// -- Raw binary body --

result<kserve_worker_call> read_raw(const worker_view& of, std::string_view body) {
  const auto& facts = *of.facts;
  if (facts.inputs.size() != 1) {
    return fail_param(errc::invalid_request, "Inference-Header-Content-Length",
                      "a body of bytes alone is for models with one input, and '{}' {}: send JSON",
                      of.name,
                      facts.inputs.empty() ? "does not say which it has"
                                           : fmt::format("has {}", facts.inputs.size()));
  }
  auto input = tensor_of_raw(facts.inputs.front(), facts.max_batch_size > 0, body);
  if (!input) {
    return input.error();
  }
  worker_reader reader(of, kserve_route::infer);
  if (auto ok = reader.begin_input(input->name, input->datatype, input->shape); !ok) {
    return ok.error();
  }
  if (auto ok = reader.add_input(std::move(input->name), std::move(input->datatype),
                                 std::move(input->shape), std::move(input->data));
      !ok) {
    return ok.error();
  }
  reader.shape().is_binary = true;
  return reader.finish({}, {});
}

} // namespace

result<void> refuse_parameters(const grpc_parameters& all, std::string_view of) {
  if (all.empty()) {
    return {};
  }
  const auto name = shown_name(all.front().first);
  return fail_param(errc::unsupported_parameter, name,
                    "the parameter '{}' of '{}' is not supported by this server", name,
                    shown_name(of));
}

result<kserve_worker_call> read_worker_infer(const worker_view& of, std::string_view body,
                                             std::string_view json_bytes,
                                             const request_limits& limits) {
  if (!json_bytes.empty() && json_bytes.find_first_not_of('0') == json_bytes.npos) {
    return read_raw(of, body);
  }
  worker_reader reader(of, kserve_route::infer);
  const infer_readers readers{
      [&reader](const given_input& given) -> result<void> {
        const auto count = reader.begin_input(given.name, given.datatype, given.shape);
        if (!count) {
          return count.error();
        }
        if (given.data) {
          return reader.add_input(given.name, given.datatype, given.shape,
                                  bytes_of_json(given.name, given.datatype, *given.data, *count));
        }
        if (auto ok = check_bytes(given.name, given.datatype, given.bytes, *count); !ok) {
          return ok;
        }
        return reader.add_input(given.name, given.datatype, given.shape, std::string(given.bytes));
      },
      [&reader](const std::string& name, bool is_binary) {
        return reader.add_output(name, is_binary);
      }};
  auto head = read_infer_body(body, json_bytes, limits, readers);
  if (!head) {
    return head.error();
  }
  reader.shape().is_binary = head->is_binary;
  return reader.finish(std::move(head->id), std::move(head->parameters));
}

result<kserve_worker_call> read_worker_infer(const worker_view& of, kserve_route route,
                                             grpc_infer given) {
  worker_reader reader(of, route);
  if (given.id.size() > kserve_id_bytes_max) {
    return fail_param(errc::invalid_value, "id", "'id' has {} bytes of at most {}", given.id.size(),
                      kserve_id_bytes_max);
  }
  kserve_parameter_map parameters;
  for (const auto& [name, value] : given.parameters) {
    if (name == empty_end_parameter && route == kserve_route::stream_infer) { // about responses
      const auto* flag = value ? std::get_if<bool>(&*value) : nullptr;
      if (!flag) {
        return fail_param(errc::invalid_value, empty_end_parameter, "'{}' must be true or false",
                          empty_end_parameter);
      }
      reader.shape().has_empty_end = *flag;
      continue;
    }
    auto text = worker_parameter_text(name, value);
    if (!text) {
      return text.error();
    }
    if (auto ok = add_parameter(parameters, name, *std::move(text)); !ok) {
      return ok.error();
    }
  }
  for (auto& input : given.inputs) {
    if (auto ok = take_input(reader, input); !ok) {
      return ok.error();
    }
  }
  if (given.raw_spare > 0) {
    return fail_param(errc::invalid_value, "raw_input_contents",
                      "{} of raw_input_contents match no input", given.raw_spare);
  }
  for (const auto& [name, further] : given.outputs) {
    if (auto ok = refuse_parameters(further, name); !ok) {
      return ok.error();
    }
    if (auto ok = reader.add_output(name, /*is_binary=*/true); !ok) {
      return ok.error();
    }
  }
  return reader.finish(std::move(given.id), std::move(parameters));
}

result<kserve_worker_call> read_worker_generate(const worker_view& of, kserve_route route,
                                                std::string_view body,
                                                const request_limits& limits) {
  if (of.facts->inputs.empty()) {
    return fail(errc::unprocessable,
                "the model '{}' does not say which inputs it has (workers.inputs in nodes.toml), "
                "so that members of a body cannot become tensors: use infer",
                of.name);
  }
  worker_reader reader(of, route);
  kserve_parameter_map parameters;
  auto id = read_generate_body(
      body, limits,
      [&](const std::string& name, const json& value, std::span<const std::string_view>) {
        return take_member(reader, parameters, name, value);
      });
  if (!id) {
    return id.error();
  }
  return reader.finish(*std::move(id), std::move(parameters));
}

} // namespace baton::gateway
