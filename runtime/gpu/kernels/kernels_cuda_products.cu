// Products of few rows on CUDA: a warp per output reads the weights once for up to eight rows.
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/product_bodies.hpp"
#include "runtime/gpu/bodies/with_type.hpp"

#include <cuda_runtime.h>

namespace baton::gpu {
namespace {

template <class T, class Output, std::uint32_t Rows>
__global__ void __launch_bounds__(warp* warps) multiply_few_kernel(few_rows_args a) {
  const std::uint64_t output = own_output();
  if (output >= a.outputs)
    return;
  warp_lane team{threadIdx.x};
  multiply_few_rows<T, Output, Rows>(team, a, blockIdx.y * Rows, output);
}

template <class T, class Output>
__global__ void unpack_kernel(unpack_args a) {
  const std::uint64_t output = own_output();
  if (output >= a.outputs)
    return;
  warp_lane team{threadIdx.x};
  unpack_row<T, Output>(team, a, output);
}

template <class T, class Output, std::uint32_t Rows>
void launch(const few_rows_args& a, void* stream) {
  const dim3 grid(blocks_for(a.outputs), (a.rows + Rows - 1) / Rows);
  multiply_few_kernel<T, Output, Rows>
      <<<grid, block_of_warps(), 0, static_cast<cudaStream_t>(stream)>>>(a);
}

} // namespace

void multiply_few_on_cuda(const few_rows_args& a, void* stream) {
  with_type(a.kind, [&](auto t) {
    using T = decltype(t);
    with_weights<T>(a.form, [&](auto output) {
      using Output = decltype(output);
      if (a.rows == 1)
        launch<T, Output, 1>(a, stream);
      else if (a.rows == 2)
        launch<T, Output, 2>(a, stream);
      else if (a.rows <= 4)
        launch<T, Output, 4>(a, stream);
      else
        launch<T, Output, 8>(a, stream);
    });
  });
}

void unpack_on_cuda(const unpack_args& a, void* stream) {
  with_type(a.kind, [&](auto t) {
    with_format(a.form, [&](auto output) {
      unpack_kernel<decltype(t), decltype(output)>
          <<<blocks_for(a.outputs), block_of_warps(), 0, static_cast<cudaStream_t>(stream)>>>(a);
    });
  });
}

} // namespace baton::gpu
