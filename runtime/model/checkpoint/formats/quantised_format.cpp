// The formats by the names of "quant_method".
#include "runtime/model/checkpoint/formats/quantised_format.hpp"

#include "runtime/model/checkpoint/formats/awq.hpp"
#include "runtime/model/checkpoint/formats/compressed_tensors.hpp"
#include "runtime/model/checkpoint/formats/fp8.hpp"
#include "runtime/model/checkpoint/formats/gptq.hpp"
#include "runtime/model/checkpoint/formats/mxfp4.hpp"
#include "runtime/model/checkpoint/formats/nvfp4.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace baton::model {
namespace {

struct method_row {
  std::string_view name;
  result<format_pointer> (*read)(const json&);
};
constexpr std::array methods = {
    method_row{"awq", read_awq_format},
    method_row{"compressed-tensors", read_compressed_tensors_format},
    method_row{"fbgemm_fp8", read_fp8_format},
    method_row{"fp8", read_fp8_format},
    method_row{"gptq", read_gptq_format},
    method_row{"modelopt", read_modelopt_format},
    method_row{"mxfp4", read_mxfp4_format},
};

} // namespace

module_part part_at_dot(std::string_view published, part_kind kind) {
  const auto dot = published.rfind('.');
  return dot == std::string_view::npos ? module_part{{}, std::string(published), kind}
                                       : module_part{std::string(published.substr(0, dot)),
                                                     std::string(published.substr(dot + 1)), kind};
}

bool is_of_activations(std::string_view published) {
  constexpr std::array<std::string_view, 10> suffixes = {".activation_scale", ".input_global_scale",
                                                         ".input_scale",      ".input_scale_ub",
                                                         ".input_zero_point", ".k_scale",
                                                         ".output_scale",     ".output_zero_point",
                                                         ".q_scale",          ".v_scale"};
  return std::ranges::any_of(suffixes, [&](auto suffix) { return published.ends_with(suffix); });
}

error unsupported_quantisation(std::string_view field, const json* value, std::string_view runs) {
  constexpr std::size_t shown_max = 200;
  auto shown = value != nullptr ? value->dump(-1, ' ', true, json::error_handler_t::replace)
                                : std::string("absent");
  if (shown.size() > shown_max) {
    shown = shown.substr(0, shown_max) + "..";
  }
  return fail(errc::unsupported_model,
              "config.json: '{}' of 'quantization_config' is {}: this build runs {}", field, shown,
              runs);
}

result<format_pointer> read_quantised_format(const json& quantization) {
  constexpr std::string_view field = "quant_method";
  const auto name = text_of(quantization, field);
  const auto* row = std::ranges::find(methods, name, &method_row::name);
  if (row != methods.end()) {
    return row->read(quantization);
  }
  std::string names;
  for (const auto& each : methods) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", each.name);
  }
  return unsupported_quantisation(
      field, member_of(quantization, field),
      names + "; take the model's unquantized weights, one of these, or a GGUF file");
}

} // namespace baton::model
