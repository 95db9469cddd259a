#include "runtime/model/checkpoint/formats/compressed_tensors.hpp"

#include "runtime/model/checkpoint/formats/fp8.hpp"
#include "runtime/model/checkpoint/formats/mxfp4.hpp"
#include "runtime/model/checkpoint/formats/nvfp4.hpp"
#include "runtime/model/checkpoint/formats/packed_codes.hpp"

#include <algorithm>
#include <array>

namespace baton::model {
namespace {

// The weights of one of "config_groups".
struct weight_scheme {
  std::string form; // "pack-quantized"
  std::string type; // "int", "float"
  std::uint64_t bits = 0;
  std::uint64_t group_size = 0; // 0: of the files
  bool is_symmetric = true;
  std::optional<fp8_block> block = {};

  friend bool operator==(const weight_scheme&, const weight_scheme&) = default;
};

error unsupported_scheme(std::string_view field, const json* value, std::string_view runs) {
  return unsupported_quantisation(fmt::format("config_groups.weights.{}", field), value, runs);
}

result<weight_scheme> read_scheme(const json& group, const std::string& form) {
  const auto* weights = member_of(group, "weights");
  if (weights == nullptr) {
    return unsupported_quantisation("config_groups", &group, "groups with weights");
  }
  weight_scheme scheme{.form = text_of(group, "format", form), .type = text_of(*weights, "type")};
  const auto* bits = member_of(*weights, "num_bits");
  if (bits == nullptr || (*bits != 4 && *bits != 8)) {
    return unsupported_scheme("num_bits", bits, "4 and 8");
  }
  scheme.bits = bits->get<std::uint64_t>();
  scheme.is_symmetric = flag_of(*weights, "symmetric", true);
  const auto* size = member_of(*weights, "group_size");
  if (size != nullptr && *size != -1) {
    if (!size->is_number_unsigned() || *size == 0) {
      return unsupported_scheme("group_size", size, "positive numbers");
    }
    scheme.group_size = size->get<std::uint64_t>();
  }
  if (const auto* structure = member_of(*weights, "block_structure")) {
    const auto block = fp8_block_of("config_groups.weights.block_structure", *structure);
    if (!block) {
      return block.error();
    }
    scheme.block = *block;
  }
  return scheme;
}

result<format_pointer> format_of(const weight_scheme& scheme) {
  const bool is_plain = scheme.form == "naive-quantized";
  const bool is_integer = scheme.type == "int";
  if (scheme.form == "pack-quantized" && is_integer) {
    return format_pointer(std::make_shared<packed_format>(packed_config{
        static_cast<std::uint32_t>(scheme.bits), scheme.group_size, scheme.is_symmetric}));
  }
  if ((scheme.form == "int-quantized" || is_plain) && is_integer && scheme.bits == 8 &&
      scheme.is_symmetric) {
    return format_pointer(std::make_shared<int8_format>());
  }
  if ((scheme.form == "float-quantized" || is_plain) && scheme.type == "float" &&
      scheme.bits == 8) {
    return format_pointer(std::make_shared<fp8_format>(scheme.block));
  }
  const bool has_four_bits = scheme.type == "float" && scheme.bits == 4 && scheme.is_symmetric;
  if (scheme.form == "nvfp4-pack-quantized" && has_four_bits) {
    return format_pointer(std::make_shared<nvfp4_format>(false));
  }
  if (scheme.form == "mxfp4-pack-quantized" && has_four_bits) {
    return format_pointer(std::make_shared<mxfp4_format>(false));
  }
  const json found =
      fmt::format("{} with {}{} bits of \"{}\"", scheme.form,
                  scheme.is_symmetric ? "" : "asymmetric ", scheme.bits, scheme.type);
  return unsupported_quantisation("format", &found,
                                  "pack-quantized with 4 and 8 bits of \"int\", int-quantized with "
                                  "symmetric 8 bits of \"int\", float-quantized with 8 bits of "
                                  "\"float\", nvfp4-pack-quantized and mxfp4-pack-quantized");
}

// Refuses fields that would change the numbers, unless they are off.
result<void> check_other_fields(const json& quantization) {
  if (const auto* sparsity = member_of(quantization, "sparsity_config");
      sparsity != nullptr && text_of(*sparsity, "format", "dense") != "dense") {
    return unsupported_quantisation("sparsity_config", sparsity, "the format \"dense\"");
  }
  if (const auto* transform = member_of(quantization, "transform_config");
      transform != nullptr && !transform->empty()) {
    const auto* groups = member_of(*transform, "config_groups");
    if (groups == nullptr || !groups->empty()) {
      return unsupported_quantisation("transform_config", transform, "none");
    }
  }
  return {};
}

} // namespace

result<format_pointer> read_compressed_tensors_format(const json& quantization) {
  if (auto r = check_other_fields(quantization); !r) {
    return r.error();
  }
  const auto* groups = member_of(quantization, "config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return unsupported_quantisation("config_groups", groups, "groups of modules");
  }
  std::optional<weight_scheme> first;
  for (const auto& [name, group] : groups->items()) {
    auto scheme = read_scheme(group, text_of(quantization, "format"));
    if (!scheme) {
      return scheme.error();
    }
    if (first && !(*first == *scheme)) {
      return unsupported_quantisation("config_groups", groups, "one scheme for all groups");
    }
    first = *std::move(scheme);
  }
  return format_of(*first);
}

} // namespace baton::model
