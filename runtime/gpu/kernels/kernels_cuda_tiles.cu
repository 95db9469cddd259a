// Products of many rows with quantised weights on CUDA's tensor cores.
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/tile_bodies.hpp"

#include <cuda_runtime.h>

namespace baton::gpu {
namespace {

// The number of warps that divide the columns of the same outputs. A matrix with few outputs has
// more, so that all multiprocessors have work. It depends on the outputs alone, so the order of a
// row's sums is the same in every step.
std::uint32_t parts_for(std::uint64_t outputs) {
  return outputs < 8192 ? 8 : outputs < 16384 ? 4 : 2;
}

template <class T, class Output, std::uint32_t Tiles>
__global__ void __launch_bounds__(warp* warps, Tiles <= 4 && Output::run <= 16 ? 2 : 1)
    multiply_tiles_kernel(few_rows_args a, std::uint32_t parts) {
  constexpr std::uint32_t each = tile_outputs / 16 * 4; // sums of a tile
  __shared__ float shared[warps][each][warp];
  warp_lane team{threadIdx.x};
  const std::uint32_t first_row = blockIdx.x * Tiles * tile_rows, part = threadIdx.y % parts;
  const std::uint64_t first_output =
      (std::uint64_t{blockIdx.y} * (warps / parts) + threadIdx.y / parts) * tile_outputs;
  const auto weights = lane_outputs<Output>::of(a, first_output, team.lane / 4);
  tile_sums<Tiles> sum = {};
  multiply_tiles<T, Output, Tiles>(team, a, weights, first_row, part, parts, sum);
  BATON_UNROLL
  for (std::uint32_t n = 0; n < Tiles; ++n) {
    float* own = &sum[n][0][0];
    __syncthreads(); // all warps have read the previous tile
    BATON_UNROLL
    for (std::uint32_t k = 0; k < each; ++k)
      shared[threadIdx.y][k][threadIdx.x] = own[k];
    __syncthreads();
    if (part != 0)
      continue;
    for (std::uint32_t other = 1; other < parts; ++other) {
      BATON_UNROLL
      for (std::uint32_t k = 0; k < each; ++k)
        own[k] += shared[threadIdx.y + other][k][threadIdx.x];
    }
  }
  if (part == 0)
    put_tiles<T, Output, Tiles>(team, a, weights, first_row, first_output, sum);
}

template <class T, class Output, std::uint32_t Tiles>
void launch_tiles(const few_rows_args& a, void* stream) {
  const std::uint32_t parts = parts_for(a.outputs), outputs = warps / parts * tile_outputs;
  const dim3 grid((a.rows + Tiles * tile_rows - 1) / (Tiles * tile_rows),
                  static_cast<unsigned>((a.outputs + outputs - 1) / outputs));
  multiply_tiles_kernel<T, Output, Tiles>
      <<<grid, block_of_warps(), 0, static_cast<cudaStream_t>(stream)>>>(a, parts);
}

} // namespace

void multiply_tiles_on_cuda(const few_rows_args& a, void* stream) {
  with_format(a.form, [&](auto output) {
    using Output = decltype(output);
    const auto by_rows = [&](auto t) {
      using T = decltype(t);
      if (a.rows <= 2 * tile_rows)
        launch_tiles<T, Output, 2>(a, stream);
      else if (a.rows <= 4 * tile_rows)
        launch_tiles<T, Output, 4>(a, stream);
      else
        launch_tiles<T, Output, 8>(a, stream);
    };
    if (a.kind == element::f16)
      by_rows(f16{});
    else
      by_rows(bf16{});
  });
}

} // namespace baton::gpu
