// The kernels on the host: the bodies with one lane, row by row. What the plugin runs on CPU
// tensors, and the reference of the device's.
#include "runtime/gpu/draw_body.hpp"
#include "runtime/gpu/kernel_bodies.hpp"

namespace baton::gpu {
namespace {

// Calls f(T{}) with the type of that kind.
template <class F>
void with_type(element kind, const F& f) {
  switch (kind) {
  case element::f32:
    return f(float{});
  case element::f16:
    return f(f16{});
  case element::bf16:
    return f(bf16{});
  }
}

template <class F>
void for_rows(std::uint32_t rows, const F& f) {
  for (std::uint32_t row = 0; row < rows; ++row)
    f(row);
}

one_lane alone;

void embed(const embed_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    for_rows(a.rows, [&](std::uint32_t row) { embed_row<T>(alone, a, row); });
  });
}

void norm(const norm_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    for_rows(a.rows, [&](std::uint32_t row) { norm_row<T>(alone, a, row); });
  });
}

void rotate(const rotate_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    with_type(a.kv.kind, [&]<class KV>(KV) {
      for_rows(a.rows, [&](std::uint32_t row) {
        for (std::uint32_t head = 0; head < a.heads + 2 * a.kv.kv_heads; ++head)
          rotate_head<T, KV>(alone, a, row, head);
      });
    });
  });
}

void attend(const attend_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    with_type(a.kv.kind, [&]<class KV>(KV) {
      for_rows(a.rows, [&](std::uint32_t row) {
        for (std::uint32_t head = 0; head < a.heads; ++head)
          if (a.kv.head_size <= 64)
            attend_head<T, KV, 64>(alone, a, row, head);
          else
            attend_head<T, KV, head_size_max>(alone, a, row, head);
      });
    });
  });
}

void gate(const gate_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    for_rows(a.rows, [&](std::uint32_t row) { gate_row<T>(alone, a, row); });
  });
}

void cap(const cap_args& a, void* /*stream*/) {
  for (std::uint64_t i = 0; i < a.count; ++i)
    a.values[i] = soft_capped(a.values[i], a.cap);
}

void choose(const choose_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { choose_row(a, row); });
}

void gather(const gather_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    for_rows(a.rows, [&](std::uint32_t row) { gather_row<T>(alone, a, row); });
  });
}

void scatter(const scatter_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { scatter_row(alone, a, row); });
}

void draw(const draw_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { draw_row(alone, a, row); });
}

} // namespace

const kernel_table& host_kernels() {
  static constexpr kernel_table table{embed, norm,   rotate, attend,  gate,
                                      cap,   choose, gather, scatter, draw};
  return table;
}

} // namespace baton::gpu
