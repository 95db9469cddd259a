// Drawing tokens on CUDA: a block per draw. A separate file, because its sums are compiled without
// contraction, as in the sampler (CMakeLists.txt).
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/draw_body.hpp"

namespace baton::gpu {
namespace {

__global__ void __launch_bounds__(wider) draw_kernel(draw_args a) {
  __shared__ float shared[wider / warp];
  lane_of_block<wider> team{threadIdx.x, shared};
  draw_row(team, a, blockIdx.x);
}

} // namespace

void draw_on_cuda(const draw_args& a, void* stream) {
  draw_kernel<<<a.rows, wider, 0, static_cast<cudaStream_t>(stream)>>>(a);
}

} // namespace baton::gpu
