#include "runtime/gpu/stage/stage_products.hpp"

#include "runtime/gpu/device/packed_format.hpp"

namespace baton::gpu {

stage_products::stage_products(device& on, const plugin::settings& with, std::uint64_t elements)
    : on_(on), form_(with.quantized), group_(with.group) {
  if (form_ != plugin::quantization::none && with.rows_max > packed_rows_max)
    elements_ = on.take(elements * bytes_of(with.weights));
}

bool stage_products::are_tiles(const product& p) const {
  return p.rows > 1 && p.rows <= on_.tile_rows_max(p.kind) &&
         p.columns % tile_columns_step(form_) == 0;
}

bool stage_products::are_few(const product& p, bool is_packed) const {
  if (is_packed)
    return p.rows <= packed_rows_max;
  return p.rows <= on_.few_rows_max(p.kind) && are_whole_runs(p.kind, p.columns);
}

void stage_products::multiply(product p, const matrix& weights) {
  const bool is_packed = weights.scales != nullptr;
  p.weights = weights.values;
  const bool is_tiles = is_packed && are_tiles(p);
  if (is_tiles || are_few(p, is_packed)) {
    const few_rows_args given{.kind = p.kind,
                              .form = is_packed ? form_ : plugin::quantization::none,
                              .group = group_,
                              .rows = p.rows,
                              .columns = p.columns,
                              .outputs = p.outputs,
                              .in = p.in,
                              .values = weights.values,
                              .scales = weights.scales,
                              .out = p.out,
                              .is_out_f32 = p.is_out_f32};
    const auto& kernels = on_.kernels();
    (is_tiles ? kernels.multiply_tiles : kernels.multiply_few)(given, on_.stream());
    return;
  }
  if (is_packed) {
    on_.kernels().unpack({.kind = p.kind,
                          .form = form_,
                          .group = group_,
                          .columns = p.columns,
                          .outputs = p.outputs,
                          .values = weights.values,
                          .scales = weights.scales,
                          .out = elements_.as<void>()},
                         on_.stream());
    p.weights = elements_.as<void>();
  }
  on_.multiply(p);
}

} // namespace baton::gpu
