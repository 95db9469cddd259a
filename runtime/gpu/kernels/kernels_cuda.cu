// The kernels on CUDA: a warp per row, or per head of a row. The bodies are shared with the host;
// this file maps lanes to threads. No torch headers: see docs/decisions/0030.
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/kernel_bodies.hpp"
#include "runtime/gpu/bodies/with_type.hpp"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace baton::gpu {

void attend_on_cuda(const attend_args& a, void* stream); // kernels_cuda_attend.cu
void draw_on_cuda(const draw_args& a, void* stream);     // kernels_cuda_draw.cu
// kernels_cuda_products.cu
void multiply_few_on_cuda(const few_rows_args& a, void* stream);
void unpack_on_cuda(const unpack_args& a, void* stream);
void multiply_tiles_on_cuda(const few_rows_args& a, void* stream); // kernels_cuda_tiles.cu
// kernels_cuda_experts.cu
void group_on_cuda(const group_args& a, void* stream);
void multiply_experts_on_cuda(const expert_args& a, void* stream);
void combine_on_cuda(const combine_args& a, void* stream);

namespace {

template <class T>
__global__ void embed_kernel(embed_args a) {
  block_lane team{threadIdx.x, nullptr};
  embed_row<T>(team, a, blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(wider) norm_kernel(norm_args a) {
  __shared__ float shared[wider / warp];
  lane_of_block<wider> team{threadIdx.x, shared};
  norm_row<T>(team, a, blockIdx.x);
}

template <class T, class KV>
__global__ void rotate_kernel(rotate_args a) {
  warp_lane team{threadIdx.x};
  rotate_head<T, KV>(team, a, blockIdx.x, blockIdx.y);
}

template <class T>
__global__ void gate_kernel(gate_args a) {
  lane_of_blocks team{blockIdx.y * wide + threadIdx.x, gridDim.y * wide};
  gate_row<T>(team, a, blockIdx.x);
}

__global__ void cap_kernel(cap_args a) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * wide + threadIdx.x;
  if (i < a.count)
    a.values[i] = soft_capped(a.values[i] * a.scale, a.cap);
}

__global__ void choose_kernel(choose_args a) {
  const std::uint32_t row = blockIdx.x * warp + threadIdx.x;
  if (row < a.rows)
    choose_row(a, row);
}

template <class T>
__global__ void gather_kernel(gather_args a) {
  block_lane team{threadIdx.x, nullptr};
  gather_row<T>(team, a, blockIdx.x);
}

__global__ void scatter_kernel(scatter_args a) {
  block_lane team{threadIdx.x, nullptr};
  scatter_row(team, a, blockIdx.x);
}

__global__ void spread_kernel(spread_args a) {
  block_lane team{threadIdx.x, nullptr};
  spread_row(team, a, blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(wider) norm_parts_kernel(row_norm_args a) {
  __shared__ float shared[wider / warp];
  lane_of_block<wider> team{threadIdx.x, shared};
  norm_part<T>(team, a, blockIdx.x, blockIdx.y);
}

__global__ void join_kernel(join_args a) {
  block_lane team{threadIdx.x, nullptr};
  join_row(team, a, blockIdx.x);
}

__global__ void feed_kernel(feed_args a) {
  const auto i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < a.count)
    feed_token(a, i);
}

cudaStream_t on(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

void embed(const embed_args& a, void* stream) {
  with_type(a.kind, [&](auto t) { embed_kernel<decltype(t)><<<a.rows, wide, 0, on(stream)>>>(a); });
}

void norm(const norm_args& a, void* stream) {
  with_type(a.kind, [&](auto t) { norm_kernel<decltype(t)><<<a.rows, wider, 0, on(stream)>>>(a); });
}

void rotate(const rotate_args& a, void* stream) {
  const dim3 grid(a.rows, a.heads + 2 * a.kv.kv_heads);
  with_type(a.kind, [&](auto t) {
    with_type(a.kv.kind, [&](auto kv) {
      rotate_kernel<decltype(t), decltype(kv)><<<grid, warp, 0, on(stream)>>>(a);
    });
  });
}

void gate(const gate_args& a, void* stream) {
  with_type(a.kind, [&](auto t) {
    using T = decltype(t);
    constexpr std::uint32_t elements = wide * 16 / sizeof(T); // per block, one run per lane
    const dim3 grid(a.rows, (a.width + elements - 1) / elements);
    gate_kernel<T><<<grid, wide, 0, on(stream)>>>(a);
  });
}

void cap(const cap_args& a, void* stream) {
  cap_kernel<<<static_cast<unsigned>((a.count + wide - 1) / wide), wide, 0, on(stream)>>>(a);
}

void choose(const choose_args& a, void* stream) {
  choose_kernel<<<(a.rows + warp - 1) / warp, warp, 0, on(stream)>>>(a);
}

void gather(const gather_args& a, void* stream) {
  with_type(a.kind,
            [&](auto t) { gather_kernel<decltype(t)><<<a.rows, wide, 0, on(stream)>>>(a); });
}

void scatter(const scatter_args& a, void* stream) {
  scatter_kernel<<<a.rows, wide, 0, on(stream)>>>(a);
}

void spread(const spread_args& a, void* stream) {
  spread_kernel<<<a.rows, wide, 0, on(stream)>>>(a);
}

void join(const join_args& a, void* stream) {
  join_kernel<<<a.rows, wide, 0, on(stream)>>>(a);
}

void norm_parts(const row_norm_args& a, void* stream) {
  const dim3 grid(a.rows, 2);
  with_type(a.kind,
            [&](auto t) { norm_parts_kernel<decltype(t)><<<grid, wider, 0, on(stream)>>>(a); });
}

void feed(const feed_args& a, void* stream) {
  feed_kernel<<<(a.count + warp - 1) / warp, warp, 0, on(stream)>>>(a);
}

} // namespace

const kernel_table& cuda_kernels() {
  static const kernel_table table{embed,
                                  norm,
                                  rotate,
                                  attend_on_cuda,
                                  gate,
                                  cap,
                                  choose,
                                  gather,
                                  scatter,
                                  spread,
                                  feed,
                                  draw_on_cuda,
                                  multiply_few_on_cuda,
                                  multiply_tiles_on_cuda,
                                  unpack_on_cuda,
                                  group_on_cuda,
                                  multiply_experts_on_cuda,
                                  combine_on_cuda,
                                  join,
                                  norm_parts};
  return table;
}

const char* cuda_kernels_refuse() {
  cudaFuncAttributes found;
  const auto e = cudaFuncGetAttributes(&found, cap_kernel);
  return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}

} // namespace baton::gpu
