// Products of a mixture on CUDA: a warp for each output of a tile. A launch has the largest
// possible number of tiles; empty ones end immediately.
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/expert_bodies.hpp"
#include "runtime/gpu/bodies/with_type.hpp"

#include <cuda_runtime.h>

namespace baton::gpu {
namespace {

__global__ void __launch_bounds__(wide) group_kernel(group_args a) {
  block_lane team{threadIdx.x, nullptr};
  group_pairs(team, a);
}

template <class T, class Output, std::uint32_t Rows>
__global__ void __launch_bounds__(warp* warps) multiply_tile_kernel(expert_args a) {
  const std::uint64_t output = own_output();
  if (output >= a.outputs)
    return;
  warp_lane team{threadIdx.x};
  multiply_tile<T, Output, Rows>(team, a, blockIdx.y, output);
}

__global__ void combine_kernel(combine_args a) {
  block_lane team{threadIdx.x, nullptr};
  combine_row(team, a, blockIdx.x);
}

cudaStream_t on(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

template <class T, class Output, std::uint32_t Rows>
void launch(const expert_args& a, void* stream) {
  const dim3 grid(blocks_for(a.outputs), a.tile_count);
  multiply_tile_kernel<T, Output, Rows><<<grid, block_of_warps(), 0, on(stream)>>>(a);
}

template <class T>
void multiply_as(const expert_args& a, void* stream) {
  with_weights<T>(a.form, [&](auto output) {
    using Output = decltype(output);
    if (a.height == 1)
      launch<T, Output, 1>(a, stream);
    else if (a.height == 4)
      launch<T, Output, 4>(a, stream);
    else
      launch<T, Output, 8>(a, stream);
  });
}

} // namespace

void group_on_cuda(const group_args& a, void* stream) {
  group_kernel<<<1, wide, 0, on(stream)>>>(a);
}

void multiply_experts_on_cuda(const expert_args& a, void* stream) {
  with_type(a.kind, [&](auto t) { multiply_as<decltype(t)>(a, stream); });
}

void combine_on_cuda(const combine_args& a, void* stream) {
  combine_kernel<<<a.rows, wide, 0, on(stream)>>>(a);
}

} // namespace baton::gpu
