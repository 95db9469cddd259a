#include "runtime/gpu/stage/stage_products.hpp"

namespace baton::gpu {

stage_products::stage_products(device& on, const plugin::settings& with, std::uint64_t elements)
    : on_(on), form_(with.quantized), group_(with.group) {
  if (form_ != plugin::quantization::none && with.rows_max > packed_rows_max)
    elements_ = on.take(elements * bytes_of(with.weights));
}

bool stage_products::are_few(const product& p, bool is_packed) const {
  if (is_packed)
    return p.rows <= packed_rows_max;
  return p.rows <= on_.few_rows_max(p.kind) && are_whole_runs(p.kind, p.columns);
}

void stage_products::multiply(product p, const matrix& weights) {
  const bool is_packed = weights.scales != nullptr;
  p.weights = weights.values;
  if (are_few(p, is_packed)) {
    on_.kernels().multiply_few({p.kind, is_packed ? form_ : plugin::quantization::none, group_,
                                p.rows, p.columns, p.outputs, p.in, weights.values, weights.scales,
                                p.out, p.is_out_f32},
                               on_.stream());
    return;
  }
  if (is_packed) {
    on_.kernels().unpack({p.kind, form_, group_, p.columns, p.outputs, weights.values,
                          weights.scales, elements_.as<void>()},
                         on_.stream());
    p.weights = elements_.as<void>();
  }
  on_.multiply(p);
}

} // namespace baton::gpu
