#include "gateway/api/kserve/calls/kserve_tensor.hpp"

#include "gateway/request/number_bytes.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace baton::gateway {
namespace {

constexpr bool is_needed = false; // not optional

constexpr tensor_row parameter(std::string_view name, tensor_type type, bool is_list = false) {
  return {name, type, is_list, /*is_optional=*/true, /*is_parameter=*/true};
}

constexpr std::array llm_inputs{
    tensor_row{"text_input", tensor_type::bytes, /*is_list=*/false, is_needed},
    tensor_row{"stream", tensor_type::boolean},
    tensor_row{"sampling_parameters", tensor_type::bytes},
    tensor_row{"exclude_input_in_output", tensor_type::boolean},
    tensor_row{"return_finish_reason", tensor_type::boolean},
    tensor_row{"return_cumulative_logprob", tensor_type::boolean},
    tensor_row{"return_logprobs", tensor_type::boolean},
    tensor_row{"return_num_input_tokens", tensor_type::boolean},
    tensor_row{"return_num_output_tokens", tensor_type::boolean},
    parameter("max_tokens", tensor_type::int32),
    parameter("min_tokens", tensor_type::int32),
    parameter("temperature", tensor_type::fp32),
    parameter("top_k", tensor_type::int32),
    parameter("top_p", tensor_type::fp32),
    parameter("repetition_penalty", tensor_type::fp32),
    parameter("presence_penalty", tensor_type::fp32),
    parameter("frequency_penalty", tensor_type::fp32),
    parameter("seed", tensor_type::uint64),
    parameter("stop_words", tensor_type::bytes, /*is_list=*/true),
};

constexpr std::array llm_outputs{
    tensor_row{"text_output", tensor_type::bytes, /*is_list=*/true},
    tensor_row{"finish_reason", tensor_type::bytes, /*is_list=*/true},
    tensor_row{"cumulative_logprob", tensor_type::fp32, /*is_list=*/true},
    tensor_row{"logprobs", tensor_type::bytes, /*is_list=*/true},
    tensor_row{"num_input_tokens", tensor_type::uint32},
    tensor_row{"num_output_tokens", tensor_type::uint32, /*is_list=*/true},
};
static_assert(llm_outputs.size() == static_cast<std::size_t>(kserve_output::num_output_tokens) + 1);

// Size of one value; for a text, of its length field.
std::size_t bytes_of(tensor_type type) noexcept {
  return type == tensor_type::boolean ? 1 : type == tensor_type::uint64 ? 8 : 4;
}

error refusal(const tensor_row& row, std::string what) {
  return {errc::invalid_value, fmt::format("input '{}' {}", row.name, what), std::string(row.name)};
}

error wrong_size(const tensor_row& row, std::size_t got, std::size_t count) {
  return refusal(row, fmt::format("has {} bytes of data, which are not the {} of its shape", got,
                                  fmt::format("{} {}{}", count, datatype_of(row.type),
                                              count == 1 ? "" : " values")));
}

bool fits(tensor_type type, const json& value) {
  switch (type) {
  case tensor_type::boolean:
    return value.is_boolean();
  case tensor_type::int32:
    return value.is_number_unsigned() // unsigned first: a huge number has no signed value
               ? value.get<std::uint64_t>() <= INT32_MAX
               : value.is_number_integer() && value.get<std::int64_t>() >= INT32_MIN;
  case tensor_type::uint32:
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= UINT32_MAX;
  case tensor_type::uint64:
    return value.is_number_unsigned();
  case tensor_type::fp32:
    return value.is_number() && std::isfinite(static_cast<float>(value.get<double>()));
  case tensor_type::bytes:
    return value.is_string();
  }
  return false;
}

// False: a value has another type, or there are more than `most`.
bool gather(tensor_type type, const json& from, std::size_t most, tensor_values& to) {
  if (from.is_array()) {
    return std::all_of(from.begin(), from.end(),
                       [&](const json& inner) { return gather(type, inner, most, to); });
  }
  to.push_back(from);
  return fits(type, from) && to.size() <= most;
}

result<tensor_values> texts_of(const tensor_row& row, std::string_view data, std::size_t count) {
  tensor_values texts;
  for (auto left = data; texts.size() < count;) {
    const auto size = left.size() < 4 ? UINT32_MAX : number_at<std::uint32_t>(left);
    if (left.size() < 4 || size > left.size() - 4) {
      return wrong_size(row, data.size(), count);
    }
    const auto text = left.substr(4, size);
    if (text::utf8_valid_prefix(text) != text.size()) {
      return refusal(row, "has a text that is not UTF-8");
    }
    texts.emplace_back(std::string(text));
    left.remove_prefix(4 + text.size());
    if (texts.size() == count && !left.empty()) {
      return wrong_size(row, data.size(), count);
    }
  }
  return texts;
}

json value_at(tensor_type type, std::string_view data) {
  switch (type) {
  case tensor_type::boolean:
    return data.front() != 0;
  case tensor_type::int32:
    return number_at<std::int32_t>(data);
  case tensor_type::uint32:
    return number_at<std::uint32_t>(data);
  case tensor_type::uint64:
    return number_at<std::uint64_t>(data);
  default:
    return number_at<float>(data);
  }
}

} // namespace

std::string_view datatype_of(tensor_type type) noexcept {
  constexpr std::array<std::string_view, 6> names{"BOOL",   "INT32", "UINT32",
                                                  "UINT64", "FP32",  "BYTES"};
  return names[static_cast<std::size_t>(type)];
}

std::span<const tensor_row> kserve_inputs() noexcept {
  return llm_inputs;
}

std::span<const tensor_row> kserve_outputs() noexcept {
  return llm_outputs;
}

const tensor_row* find_tensor(std::span<const tensor_row> rows, std::string_view name) noexcept {
  const auto it =
      std::find_if(rows.begin(), rows.end(), [&](const tensor_row& r) { return r.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

result<std::size_t> count_of(const tensor_row& row, std::span<const std::int64_t> shape) {
  const auto shown =
      fmt::format("[{}]", fmt::join(shape.first(std::min(shape.size(), tensor_dims_max)), ","));
  if (shape.empty() || shape.size() > tensor_dims_max ||
      std::any_of(shape.begin(), shape.end() - 1, [](std::int64_t n) { return n != 1; }) ||
      shape.back() < 0) {
    return refusal(row, fmt::format("has the shape {}, the model takes {}", shown,
                                    row.is_list ? "[-1] and [1,-1]" : "[1] and [1,1]"));
  }
  const auto count = static_cast<std::uint64_t>(shape.back());
  if (!row.is_list && count != 1) {
    return refusal(row, fmt::format("has the shape {}, the model takes [1]", shown));
  }
  if (count > tensor_values_max) {
    return refusal(row, fmt::format("has {} values of at most {}", count, tensor_values_max));
  }
  return static_cast<std::size_t>(count);
}

result<tensor_values> values_of_json(const tensor_row& row, const json& data, std::size_t count) {
  tensor_values values;
  if (!gather(row.type, data, count, values) && values.size() <= count) {
    return refusal(row, fmt::format("must be of {}, which {} is not", datatype_of(row.type),
                                    kind_of_json(values.back())));
  }
  if (values.size() != count) {
    return refusal(row, fmt::format("has {} values, and its shape {}",
                                    values.size() > count ? "more" : "fewer", count));
  }
  return values;
}

result<tensor_values> values_of_bytes(const tensor_row& row, std::string_view data,
                                      std::size_t count) {
  if (row.type == tensor_type::bytes && count > 0) {
    return texts_of(row, data, count);
  }
  const auto each = bytes_of(row.type);
  if (data.size() != each * count) {
    return wrong_size(row, data.size(), count);
  }
  tensor_values values;
  for (; !data.empty(); data.remove_prefix(each)) {
    values.push_back(value_at(row.type, data));
    if (!fits(row.type, values.back())) {
      return refusal(row, "has a value that is not a finite number");
    }
  }
  return values;
}

void append_bytes(std::string& out, tensor_type type, const tensor_values& values) {
  for (const auto& value : values) {
    switch (type) {
    case tensor_type::boolean:
      out += value.get<bool>() ? '\1' : '\0';
      break;
    case tensor_type::int32:
      append_number(out, value.get<std::int32_t>());
      break;
    case tensor_type::uint32:
      append_number(out, value.get<std::uint32_t>());
      break;
    case tensor_type::uint64:
      append_number(out, value.get<std::uint64_t>());
      break;
    case tensor_type::fp32:
      append_number(out, value.get<float>());
      break;
    case tensor_type::bytes: {
      const auto& text = value.get_ref<const std::string&>();
      append_number(out, static_cast<std::uint32_t>(text.size()));
      out += text;
      break;
    }
    }
  }
}

} // namespace baton::gateway
