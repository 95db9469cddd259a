// The rotation of config.json. The numbers are those of transformers' modeling_rope_utils.py.
#include "runtime/model/checkpoint/config_reader.hpp"
#include "runtime/model/rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace baton::model {

// Two forms: an object "rope_parameters" (transformers 5; one per kind of layer in Gemma 3), or
// fields of config.json, with an object "rope_scaling" for scaled models.
result<void> config_reader::read_rope() {
  const auto* newer = member_of(config_, "rope_parameters");
  const auto* full = newer != nullptr ? member_of(*newer, "full_attention") : nullptr;
  const auto* windowed = newer != nullptr ? member_of(*newer, "sliding_attention") : nullptr;
  const auto* scaling = member_of(config_, "rope_scaling");
  const json nothing = json::object();
  const json& rope = full != nullptr      ? *full
                     : newer != nullptr   ? *newer
                     : scaling != nullptr ? *scaling
                                          : nothing;
  if (!rope.is_object()) {
    return unsupported(newer != nullptr ? "rope_parameters" : "rope_scaling", "an object");
  }
  const json published_base = published_.rope_base;
  if (kind_.takes_windowed_sizes && (full == nullptr || windowed == nullptr)) {
    return unsupported("rope_parameters", "one of full_attention and one of sliding_attention");
  }
  const auto* base = member_of(newer != nullptr ? rope : config_, "rope_theta");
  put("rope.freq_base", base != nullptr ? base : &published_base, "rope_theta");
  if (windowed != nullptr) {
    if (const auto type = text_of(*windowed, "rope_type", "default"); type != "default") {
      return fail(errc::unsupported_model,
                  "config.json: rope_type '{}' of sliding_attention: this build runs default there",
                  type);
    }
    put("rope.freq_base_swa", member_of(*windowed, "rope_theta"), "rope_theta");
  } else if (kind_.takes_windowed_rope_base) {
    put("rope.freq_base_swa", member_of(config_, "rope_local_base_freq"), "rope_local_base_freq");
  }
  const auto type = text_of(rope, "rope_type", text_of(rope, "type", "default"));
  if (type == "proportional" && kind_.takes_windowed_sizes) {
    take_proportional(rope);
    return {};
  }
  if (auto r = kind_.has_latent_attention ? result<void>() : read_rotated_part(rope); !r) {
    return r;
  }
  if (type == "llama3" && kind_.takes_rope_factors) {
    return take_llama3_factors(rope, number(base).value_or(published_.rope_base));
  }
  if (const auto* growth = member_of(rope, "llama_4_scaling_beta")) {
    put("attention.temperature_scale", growth, "llama_4_scaling_beta");
  }
  if (type == "dynamic") {
    return take_dynamic(rope, number(base).value_or(published_.rope_base));
  }
  return read_scaling(rope, type);
}

// Dynamic scaling changes the frequencies of contexts beyond the trained one, which no engine
// serves. Hunyuan has another base instead.
result<void> config_reader::take_dynamic(const json& rope, double base) {
  const auto alpha = number(member_of(rope, "alpha"));
  const auto size = head_size();
  if (kind_.qk_norm != qk_norm_kind::rotated_heads || !alpha || *alpha == 0.0) {
    return {};
  }
  if (!(*alpha > 0.0) || !(size > 2.0)) {
    return fail(errc::bad_model_file, "config.json: 'alpha' is {} with heads of {}", *alpha, size);
  }
  put_number("rope.freq_base", base * std::pow(*alpha, size / (size - 2.0)), "alpha");
  return {};
}

result<void> config_reader::read_scaling(const json& rope, const std::string& type) {
  if (type == "default") {
    return {};
  }
  if (type == "yarn") {
    return take_yarn(rope);
  }
  if (kind_.takes_long_rope_factors && (type == "longrope" || type == "su")) {
    return take_longrope(rope);
  }
  if (type != "linear") {
    return fail(errc::unsupported_model,
                "config.json: rope_type '{}' with {}: this build runs default, linear, dynamic, "
                "yarn{}{}",
                type, published_.architecture, kind_.takes_rope_factors ? ", llama3" : "",
                kind_.takes_long_rope_factors ? ", longrope" : "");
  }
  const json linear = type;
  put("rope.scaling.type", &linear, "rope_type");
  const auto* factor = member_of(rope, "factor");
  if (factor == nullptr) {
    return fail(errc::bad_model_file, "config.json: rope_type 'linear' without a factor");
  }
  put("rope.scaling.factor", factor, "factor");
  return {};
}

const json* config_reader::original_context(const json& rope) const {
  constexpr std::string_view field = "original_max_position_embeddings";
  for (const auto* of : {&config_, &rope}) {
    if (const auto* value = member_of(*of, field)) {
      return value;
    }
  }
  return member_of(config_, "max_position_embeddings");
}

void config_reader::put_number(std::string_view key, double value, std::string field) {
  const json number = value;
  put(key, &number, std::move(field));
}

// GGUF's key for the magnitude multiplies the one that follows from the factor.
result<void> config_reader::take_yarn(const json& rope) {
  const json yarn = "yarn";
  put("rope.scaling.type", &yarn, "rope_type");
  const auto* original = original_context(rope);
  put("rope.scaling.original_context_length", original, "original_max_position_embeddings");
  const auto whole = number("max_position_embeddings"), before = number(original);
  auto factor = number(member_of(rope, "factor"));
  if (!factor && whole && before && *before > 0.0 && *whole > *before) {
    factor = *whole / *before;
  }
  if (!factor) {
    return fail(errc::bad_model_file, "config.json: rope_type 'yarn' without a factor");
  }
  put_number("rope.scaling.factor", *factor, "factor");
  for (const auto& [field, key] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                                   {"beta_slow", "rope.scaling.yarn_beta_slow"}}) {
    if (number(member_of(rope, field)).value_or(0.0) != 0.0) { // 0 is the default, too
      put(key, member_of(rope, field), field);
    }
  }
  put_number("rope.scaling.yarn_log_multiplier", 0.0,
             "mscale_all_dim"); // it is in the factor below
  put("rope.scaling.yarn_truncate", member_of(rope, "truncate"), "truncate");
  auto magnitude = number(member_of(rope, "attention_factor"));
  const auto weight = number(member_of(rope, "mscale")).value_or(0.0);
  const auto of_all = number(member_of(rope, "mscale_all_dim")).value_or(0.0);
  if (!magnitude && weight != 0.0 && of_all != 0.0) {
    magnitude = yarn_magnitude(*factor, weight) / yarn_magnitude(*factor, of_all);
  }
  if (kind_.has_latent_attention) { // whose products have a factor beside that of the rotation
    put_number("rope.scaling.yarn_log_multiplier", latent_yarn_part * of_all, "mscale_all_dim");
    put_number("rope.scaling.attn_factor", magnitude.value_or(yarn_magnitude(*factor)),
               "attention_factor");
  } else if (magnitude) {
    put_number("rope.scaling.attn_factor", *magnitude / yarn_magnitude(*factor),
               "attention_factor");
  }
  return {};
}

result<void> config_reader::take_longrope(const json& rope) {
  const json longrope = "longrope";
  put("rope.scaling.type", &longrope, "rope_type");
  const auto* original = original_context(rope);
  put("rope.scaling.original_context_length", original, "original_max_position_embeddings");
  const auto whole = number("max_position_embeddings"), before = number(original);
  if (!whole || !before || !(*before > 1.0)) {
    return fail(errc::bad_model_file,
                "config.json: rope_type 'longrope' without 'original_max_position_embeddings'");
  }
  const auto factor = number(member_of(rope, "factor")).value_or(*whole / *before);
  const auto usual = factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(*before));
  put_number("rope.scaling.attn_factor",
             number(member_of(rope, "attention_factor")).value_or(usual), "attention_factor");
  if (auto r = put_factors(rope, "long_factor", "rope_factors_long.weight"); !r) {
    return r;
  }
  return put_factors(rope, "short_factor", "rope_factors_short.weight");
}

// The first pairs have the frequencies of a whole head; the others are not rotated, which a factor
// of 1e30 says, as in GGUF.
void config_reader::take_proportional(const json& rope) {
  constexpr double size_max = 1 << 20, no_rotation = 1e30;
  const auto size = std::clamp(full_head_size_, 0.0, size_max);
  const auto part = number(member_of(rope, "partial_rotary_factor")).value_or(1.0);
  const auto stretch = number(member_of(rope, "factor")).value_or(1.0);
  const auto rotated = std::floor(std::floor(part * size) / 2.0);
  auto& factors = out_.made["rope_freqs.weight"];
  for (double i = 0; i < std::floor(size / 2.0); ++i) {
    factors.push_back(static_cast<float>(i < rotated ? stretch : no_rotation));
  }
}

result<void> config_reader::put_factors(const json& rope, std::string_view field,
                                        std::string tensor) {
  const auto* list = member_of(rope, field);
  constexpr std::size_t factors_max = 1 << 16;
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > factors_max) {
    return fail(errc::bad_model_file, "config.json: '{}' is not a list of factors", field);
  }
  std::vector<float> values;
  for (const auto& factor : *list) {
    if (!factor.is_number()) {
      return fail(errc::bad_model_file, "config.json: '{}' holds {}", field, shown(factor));
    }
    values.push_back(factor.get<float>());
  }
  out_.made.emplace(std::move(tensor), std::move(values));
  return {};
}

// The factor stretches long waves and keeps short ones, with a ramp between them, as in Llama 3.1's
// reference code.
result<void> config_reader::take_llama3_factors(const json& rope, double base) {
  std::array<double, 4> values{};
  constexpr std::array<std::string_view, 4> names = {
      "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = number(member_of(rope, names[i]));
    if (!value || !(*value > 0.0)) {
      return fail(errc::bad_model_file, "config.json: rope_type 'llama3' needs a positive '{}'",
                  names[i]);
    }
    values[i] = *value;
  }
  const auto [factor, low, high, original] = values;
  const double size = head_size();
  constexpr double head_size_max = 1 << 20;
  if (!(size >= 2.0 && size <= head_size_max) || !(high > low)) {
    return fail(errc::bad_model_file,
                "config.json: rope_type 'llama3' with heads of {}, from {} to {}", size, low, high);
  }
  auto& factors = out_.made["rope_freqs.weight"];
  for (double i = 0; i < std::floor(size / 2); ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(base, 2 * i / size);
    const double ramp = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1.0 / ((1.0 - ramp) / factor + ramp)));
  }
  return {};
}

result<void> config_reader::read_rotated_part(const json& rope) {
  constexpr std::string_view field = "partial_rotary_factor";
  auto part = number(member_of(rope, field));
  if (!part) {
    part = number(field);
  }
  if (const auto rotated = number("rotary_dim"); !part && rotated && head_size() > 0.0) {
    part = *rotated / head_size(); // MiniMax M2
  }
  if (!part) {
    part = published_.rotated_part;
  }
  if (*part == 1.0) {
    return {};
  }
  const double size = head_size();
  if (!published_.takes_partial_rotation || !(*part > 0.0 && *part < 1.0) ||
      !(size > 0.0 && size < 1e6)) {
    return fail(errc::unsupported_model, "config.json: '{}' is {}: this build runs {} with {}",
                field, *part, published_.takes_partial_rotation ? "0 to 1" : "1",
                published_.architecture);
  }
  const json dimensions = static_cast<std::uint64_t>(*part * size);
  put("rope.dimension_count", &dimensions, std::string(field));
  return {};
}

} // namespace baton::model
