#include "runtime/model/checkpoint/formats/nvfp4.hpp"

#include "runtime/model/checkpoint/formats/fp8.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace baton::model {
namespace {

constexpr std::uint64_t inputs_of_scale = 16;
constexpr std::array<float, 16> e2m1_values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                               4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                               -2.0F, -3.0F, -4.0F, -6.0F};

// How the scale of all changes the others.
struct scale_of_all {
  float value = 1.0F;
  bool divides = false;

  float applied_to(float scale) const { return divides ? scale / value : scale * value; }
};

class nvfp4_matrix final : public quantised_matrix {
public:
  nvfp4_matrix(stored_tensor codes, stored_tensor scales, const scale_of_all& of_all)
      : codes_(std::move(codes)), scales_(std::move(scales)), of_all_(of_all) {}

  tensor_view view() const override {
    return {{}, tensor_type::bf16, {2 * codes_.view.columns(), codes_.view.rows()}, {}};
  }

  result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override {
    const auto width = codes_.view.columns(), groups = scales_.view.columns();
    const auto codes = elements_of<std::uint8_t>(codes_, files, first * width, count * width);
    if (!codes) {
      return codes.error();
    }
    const auto scales = elements_of<std::uint8_t>(scales_, files, first * groups, count * groups);
    if (!scales) {
      return scales.error();
    }
    auto* to = out.data();
    const auto* from = codes->data();
    for (const auto bits : *scales) {
      const auto scale = of_all_.applied_to(f8_e4m3_to_f32(bits));
      for (std::uint64_t k = 0; k < inputs_of_scale; ++k, to += sizeof(std::uint16_t)) {
        const auto code = static_cast<unsigned>(from[k / 2]) >> (4 * (k % 2)) & 15U;
        const auto half = f32_to_bf16(e2m1_values[code] * scale);
        std::memcpy(to, &half, sizeof half);
      }
      from += inputs_of_scale / 2;
    }
    return {};
  }

private:
  stored_tensor codes_, scales_;
  scale_of_all of_all_;
};

} // namespace

std::optional<module_part> nvfp4_format::part_of(const tensor_view& stored) const {
  const auto is = [&](std::string_view suffix) { return stored.name.ends_with(suffix); };
  const bool is_codes =
      is_of_modelopt_ ? is(".weight") && stored.type == tensor_type::u8 : is(".weight_packed");
  if (is_codes) {
    return part_at_dot(stored.name, part_kind::codes);
  }
  if (is(".weight_scale") || is(is_of_modelopt_ ? ".weight_scale_2" : ".weight_global_scale")) {
    return part_at_dot(stored.name, part_kind::beside);
  }
  return is_of_activations(stored.name) ? std::optional(part_at_dot(stored.name, part_kind::unused))
                                        : std::nullopt;
}

result<matrix_pointer> nvfp4_format::open(const module_parts& parts, file_span files) const {
  const auto& codes = *parts.find(is_of_modelopt_ ? "weight" : "weight_packed");
  if (codes.view.type != tensor_type::u8 || codes.view.shape.size() != 2) {
    return fail(errc::bad_model_file, "tensor '{}': expected U8 of two dimensions, found {}",
                codes.view.name, shape_of(codes.view));
  }
  const auto in = 2 * codes.view.columns(), out = codes.view.rows();
  if (in % inputs_of_scale != 0) {
    return fail(errc::bad_model_file, "tensor '{}' has {} inputs, not a multiple of {}",
                codes.view.name, in, inputs_of_scale);
  }
  const auto* scales = parts.find("weight_scale");
  if (auto r = check_part(scales, "weight_scale", codes,
                          {{}, tensor_type::f8_e4m3, {in / inputs_of_scale, out}, {}});
      !r) {
    return r.error();
  }
  const std::string_view role = is_of_modelopt_ ? "weight_scale_2" : "weight_global_scale";
  const auto* of_all = parts.find(role);
  if (auto r = check_part(of_all, role, codes, {{}, tensor_type::f32, {1}, {}}); !r) {
    return r.error();
  }
  const auto value = floats_of(*of_all, files, 0, 1);
  if (!value) {
    return value.error();
  }
  if (!std::isfinite(value->front()) || !(value->front() > 0.0F)) {
    return fail(errc::bad_model_file, "tensor '{}' is {}, not a positive number", of_all->view.name,
                value->front());
  }
  return matrix_pointer(std::make_shared<nvfp4_matrix>(
      codes, *scales, scale_of_all{value->front(), !is_of_modelopt_}));
}

result<format_pointer> read_modelopt_format(const json& quantization) {
  const auto* algorithm = member_of(quantization, "quant_algo");
  if (algorithm != nullptr && *algorithm == "NVFP4") {
    return format_pointer(std::make_shared<nvfp4_format>(true));
  }
  if (algorithm != nullptr && *algorithm == "FP8") {
    return format_pointer(std::make_shared<fp8_format>(std::nullopt));
  }
  return unsupported_quantisation("quant_algo", algorithm, "\"NVFP4\" and \"FP8\"");
}

} // namespace baton::model
