#include "runtime/gpu/packed_products.hpp"

namespace baton::gpu {

packed_products::packed_products(device& on, const plugin::settings& with, std::uint64_t elements)
    : on_(on), form_(with.quantized), group_(with.group) {
  if (form_ != plugin::quantization::none && with.rows_max > packed_rows_max)
    elements_ = on.take(elements * (with.weights == element::f32 ? 4 : 2));
}

void packed_products::multiply(product p, const matrix& weights) {
  p.weights = weights.values;
  if (weights.scales != nullptr && p.rows <= packed_rows_max) {
    on_.kernels().multiply_packed({p.kind, form_, group_, p.rows, p.columns, p.outputs, p.in,
                                   weights.values, weights.scales, p.out, p.is_out_f32},
                                  on_.stream());
    return;
  }
  if (weights.scales != nullptr) {
    on_.kernels().unpack({p.kind, form_, group_, p.columns, p.outputs, weights.values,
                          weights.scales, elements_.as<void>()},
                         on_.stream());
    p.weights = elements_.as<void>();
  }
  on_.multiply(p);
}

} // namespace baton::gpu
