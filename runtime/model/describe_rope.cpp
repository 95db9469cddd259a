// The rotations of a description, by the keys of llama.cpp.
#include "runtime/model/describe_parts.hpp"
#include "runtime/model/rope.hpp"

namespace baton::model {
namespace {

// The tensors decide, as in llama.cpp: its converter writes no type for longrope.
result<rope_scaling_kind> scaling_of(const model_file& file, const family& kind,
                                     const std::string& architecture) {
  const auto type = file.get_string(architecture + ".rope.scaling.type", "");
  if (!type) {
    return type.error();
  }
  const bool has_lengths =
      kind.takes_long_rope_factors && file.find("rope_factors_long.weight").has_value();
  if (has_lengths && (type->empty() || *type == "longrope")) {
    return rope_scaling_kind::longrope;
  }
  if (*type == "none") {
    return rope_scaling_kind::none;
  }
  if (*type == "yarn") {
    return rope_scaling_kind::yarn;
  }
  if (type->empty() || *type == "linear") {
    return rope_scaling_kind::linear;
  }
  return fail(errc::unsupported_model,
              "metadata key '{}.rope.scaling.type' is {}: this build runs none, linear, yarn{}",
              architecture, *type, kind.takes_long_rope_factors ? " and longrope" : "");
}

// Requires: yarn or longrope. The context is that of the scaled model, as in vLLM: files give the
// one before scaling.
result<void> read_original_context(const model_file& file, description& d, rope_description& rope) {
  size_reader sizes(file, d.architecture);
  sizes.read(rope.original_context_size, "rope.scaling.original_context_length", context_length_max,
             d.context_length);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (rope.scaling == rope_scaling_kind::yarn) {
    const double scaled = double{rope.scaling_factor} * rope.original_context_size;
    if (scaled > d.context_length) {
      d.context_length =
          static_cast<std::uint32_t>(std::min(scaled, static_cast<double>(context_length_max)));
    }
  }
  return {};
}

// The key for the magnitude multiplies yarn's own.
result<void> read_yarn(const model_file& file, const family& kind, description& d,
                       rope_description& rope) {
  if (auto r = read_original_context(file, d, rope); !r) {
    return r;
  }
  size_reader sizes(file, d.architecture);
  sizes.read(rope.fast_turns, "rope.scaling.yarn_beta_fast", rope.fast_turns);
  sizes.read(rope.slow_turns, "rope.scaling.yarn_beta_slow", rope.slow_turns);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  const auto truncates =
      file.get_bool(d.architecture + ".rope.scaling.yarn_truncate", kind.truncates_yarn);
  if (!truncates) {
    return truncates.error();
  }
  rope.has_whole_borders = *truncates;
  const auto of_all =
      file.get_f32(d.architecture + ".rope.scaling.yarn_log_multiplier", kind.yarn_weight_of_all);
  if (!of_all) {
    return of_all.error();
  }
  const double factor = double{rope.scaling_factor};
  // Latent attention scales products instead: scale_latent_attention().
  const double own = kind.has_latent_attention ? 1.0
                     : *of_all != 0.0F
                         ? yarn_magnitude(factor) / yarn_magnitude(factor, double{*of_all})
                         : yarn_magnitude(factor);
  rope.magnitude *= static_cast<float>(own);
  if (!(rope.base > 1.0F)) { // its logarithm divides
    return fail(errc::bad_model_file, "metadata key '{}' is {}, with yarn it must be above 1",
                file.original_name(d.architecture + ".rope.freq_base"), rope.base);
  }
  return {};
}

} // namespace

// As in llama.cpp: linear if no type is given, with the older key if the newer one is absent.
result<void> read_rope(const model_file& file, const family& kind, description& d) {
  const auto scaling = scaling_of(file, kind, d.architecture);
  if (!scaling) {
    return scaling.error();
  }
  const bool has_newer = file.has(d.architecture + ".rope.scaling.factor");
  size_reader sizes(file, d.architecture);
  if (kind.takes_windowed_rope_base) { // only the layers without a window are scaled
    d.ropes.push_back(d.ropes.front());
    sizes.read(d.ropes.back().base, "rope.freq_base_swa",
               kind.shares_rope_base ? d.ropes.front().base : 10000.0F);
    if (kind.takes_windowed_sizes) {
      const auto size = file.get_u32(d.architecture + ".attention.key_length_swa", d.head_size);
      sizes.read(d.ropes.back().dimension_count, "rope.dimension_count_swa", width_max,
                 size ? *size : d.head_size);
    }
  }
  auto& rope = d.ropes.front();
  sizes.read(rope.scaling_factor, has_newer ? "rope.scaling.factor" : "rope.scale_linear", 1.0F);
  sizes.read(rope.magnitude, "rope.scaling.attn_factor", 1.0F);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (*scaling == rope_scaling_kind::longrope) {
    rope.scaling = *scaling;
    return read_original_context(file, d, rope);
  }
  if (rope.scaling_factor == 1.0F) {
    return {};
  }
  if (*scaling == rope_scaling_kind::none) {
    return fail(errc::bad_model_file,
                "metadata key '{}.rope.scaling.type' is none, but there is a factor of {}",
                d.architecture, rope.scaling_factor);
  }
  rope.scaling = *scaling;
  return rope.scaling == rope_scaling_kind::yarn ? read_yarn(file, kind, d, rope) : result<void>();
}

} // namespace baton::model
