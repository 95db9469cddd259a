// The kernels on the host: the bodies with one lane, row by row. Used by the plugin for CPU
// tensors, and as the reference for the device kernels.
#include "runtime/gpu/bodies/attend_body.hpp"
#include "runtime/gpu/bodies/draw_body.hpp"
#include "runtime/gpu/bodies/expert_bodies.hpp"
#include "runtime/gpu/bodies/kernel_bodies.hpp"
#include "runtime/gpu/bodies/product_bodies.hpp"
#include "runtime/gpu/bodies/with_type.hpp"

namespace baton::gpu {
namespace {

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
        with_group(a, [&]<std::uint32_t Group>(heads_together<Group>) {
          for (std::uint32_t group = 0; group < groups_of<Group>(a); ++group)
            for (std::uint32_t split = 0; split < a.splits; ++split)
              if (a.kv.head_size <= 64)
                attend_group<T, KV, Group, 64>(alone, a, row, group, split);
              else
                attend_group<T, KV, Group, head_size_max>(alone, a, row, group, split);
        });
        for (std::uint32_t head = 0; a.splits > 1 && head < a.heads; ++head)
          merge_head<T>(alone, a, row, head);
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
    a.values[i] = soft_capped(a.values[i] * a.scale, a.cap);
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

void spread(const spread_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { spread_row(alone, a, row); });
}

void feed(const feed_args& a, void* /*stream*/) {
  for_rows(a.count, [&](std::uint32_t i) { feed_token(a, i); });
}

void draw(const draw_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { draw_row(alone, a, row); });
}

void multiply_few(const few_rows_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    with_weights<T>(a.form, [&]<class Output>(Output) {
      for (std::uint64_t output = 0; output < a.outputs; ++output)
        for_rows(a.rows, [&](std::uint32_t row) {
          multiply_few_rows<T, Output, 1>(alone, a, row, output);
        });
    });
  });
}

void unpack(const unpack_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    with_format(a.form, [&]<class Format>(Format) {
      for (std::uint64_t output = 0; output < a.outputs; ++output)
        unpack_row<T, Format>(alone, a, output);
    });
  });
}

void group(const group_args& a, void* /*stream*/) {
  group_pairs(alone, a);
}

void multiply_experts(const expert_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    with_weights<T>(a.form, [&]<class Output>(Output) {
      for (std::uint32_t tile = 0; tile < a.tile_count; ++tile)
        for (std::uint64_t output = 0; output < a.outputs; ++output)
          multiply_tile<T, Output, tile_height_max>(alone, a, tile, output);
    });
  });
}

void combine(const combine_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { combine_row(alone, a, row); });
}

void join(const join_args& a, void* /*stream*/) {
  for_rows(a.rows, [&](std::uint32_t row) { join_row(alone, a, row); });
}

void norm_parts(const row_norm_args& a, void* /*stream*/) {
  with_type(a.kind, [&]<class T>(T) {
    for_rows(a.rows, [&](std::uint32_t row) {
      norm_part<T>(alone, a, row, 0);
      norm_part<T>(alone, a, row, 1);
    });
  });
}

} // namespace

const kernel_table& host_kernels() {
  static constexpr kernel_table table{
      embed,  norm,    rotate,           attend,  gate, cap,          choose,
      gather, scatter, spread,           feed,    draw, multiply_few, multiply_few,
      unpack, group,   multiply_experts, combine, join, norm_parts};
  return table;
}

} // namespace baton::gpu
