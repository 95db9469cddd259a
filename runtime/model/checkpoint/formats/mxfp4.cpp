#include "runtime/model/checkpoint/formats/mxfp4.hpp"

namespace baton::model {
namespace {

constexpr std::uint64_t bytes_of_codes = 16;
constexpr std::uint64_t inputs_of_codes = 32;

// Bytes of inputs (0, 1), (2, 3), .. become bytes of inputs (0, 16), (1, 17), ..
void reorder_nibbles(const std::uint8_t* from, std::byte* to) {
  const auto code = [&](std::uint64_t input) {
    return static_cast<unsigned>(from[input / 2]) >> (4 * (input % 2)) & 15U;
  };
  for (std::uint64_t k = 0; k < bytes_of_codes; ++k) {
    to[k] = static_cast<std::byte>(code(k) | code(k + inputs_of_codes / 2) << 4U);
  }
}

class mxfp4_matrix final : public quantised_matrix {
public:
  mxfp4_matrix(stored_tensor blocks, stored_tensor scales)
      : blocks_(std::move(blocks)), scales_(std::move(scales)) {}

  tensor_view view() const override {
    auto shape = scales_.view.shape; // in / 32, out, perhaps experts
    shape[0] *= inputs_of_codes;
    return {{}, tensor_type::mxfp4, std::move(shape), {}};
  }

  result<void> copy_rows(file_span files, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override {
    const auto per_row = scales_.view.columns();
    const auto codes = elements_of<std::uint8_t>(blocks_, files, first * per_row * bytes_of_codes,
                                                 count * per_row * bytes_of_codes);
    if (!codes) {
      return codes.error();
    }
    const auto scales = elements_of<std::uint8_t>(scales_, files, first * per_row, count * per_row);
    if (!scales) {
      return scales.error();
    }
    auto* to = out.data();
    for (std::uint64_t block = 0; block < scales->size(); ++block) {
      *to++ = static_cast<std::byte>((*scales)[block]);
      reorder_nibbles(codes->data() + block * bytes_of_codes, to);
      to += bytes_of_codes;
    }
    return {};
  }

private:
  stored_tensor blocks_, scales_;
};

} // namespace

std::optional<module_part> mxfp4_format::part_of(const tensor_view& stored) const {
  constexpr std::string_view of_experts = ".experts.";
  if (!is_of_experts_) {
    const auto is = [&](std::string_view suffix) { return stored.name.ends_with(suffix); };
    if (is(".weight_packed") || is(".weight_scale")) {
      return part_at_dot(stored.name, is(".weight_packed") ? part_kind::codes : part_kind::beside);
    }
    return is_of_activations(stored.name)
               ? std::optional(part_at_dot(stored.name, part_kind::unused))
               : std::nullopt;
  }
  if (stored.name.find(of_experts) == std::string::npos) {
    return std::nullopt;
  }
  const auto named = [&](std::string_view suffix, part_kind kind) {
    return module_part{stored.name.substr(0, stored.name.size() - suffix.size()),
                       std::string(suffix.substr(1)), kind};
  };
  if (stored.name.ends_with("_blocks")) {
    return named("_blocks", part_kind::codes);
  }
  return stored.name.ends_with("_scales") ? std::optional(named("_scales", part_kind::beside))
                                          : std::nullopt;
}

result<matrix_pointer> mxfp4_format::open(const module_parts& parts, file_span) const {
  const auto& blocks = *parts.find(is_of_experts_ ? "blocks" : "weight_packed");
  const auto& shape = blocks.view.shape;
  const bool fits = is_of_experts_ ? shape.size() == 4 && shape[0] == bytes_of_codes
                                   : shape.size() == 2 && shape[0] % bytes_of_codes == 0;
  if (blocks.view.type != tensor_type::u8 || !fits) {
    return fail(errc::bad_model_file, "tensor '{}': expected U8 {}, found {}", blocks.view.name,
                is_of_experts_ ? "[experts, outputs, blocks, 16]" : "[outputs, blocks * 16]",
                shape_of(blocks.view));
  }
  auto of_scales = shape;
  if (is_of_experts_) {
    of_scales.erase(of_scales.begin());
  } else {
    of_scales[0] /= bytes_of_codes;
  }
  const std::string_view role = is_of_experts_ ? "scales" : "weight_scale";
  const auto* scales = parts.find(role);
  if (auto r = check_part(scales, role, blocks, {{}, tensor_type::u8, of_scales, {}}); !r) {
    return r.error();
  }
  return matrix_pointer(std::make_shared<mxfp4_matrix>(blocks, *scales));
}

result<format_pointer> read_mxfp4_format(const json&) {
  return format_pointer(std::make_shared<mxfp4_format>(true));
}

} // namespace baton::model
