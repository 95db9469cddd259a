// Attention on CUDA: a warp for the query heads of a row that share a KV head, over a part of its
// context. Then a warp per head merges the parts.
#include "runtime/gpu/bodies/attend_body.hpp"
#include "runtime/gpu/bodies/cuda_lanes.cuh"
#include "runtime/gpu/bodies/with_type.hpp"

#include <cuda_runtime.h>

namespace baton::gpu {
namespace {

// 16 bytes of 16-bit elements: heads of up to head_size_max take up to 32 lanes.
constexpr std::uint32_t per_lane = 8;
static_assert(per_lane * warp >= head_size_max);

template <class T, class KV, std::uint32_t Group>
__global__ void __launch_bounds__(warp) attend_kernel(attend_args a) {
  warp_lane team{threadIdx.x};
  attend_group<T, KV, Group, per_lane>(team, a, blockIdx.x, blockIdx.y, blockIdx.z);
}

template <class T>
__global__ void __launch_bounds__(warp) merge_kernel(attend_args a) {
  warp_lane team{threadIdx.x};
  merge_head<T>(team, a, blockIdx.x, blockIdx.y);
}

template <class T, class KV, std::uint32_t Group>
void launch(heads_together<Group>, const attend_args& a, cudaStream_t stream) {
  const dim3 grid(a.rows, groups_of<Group>(a), a.splits);
  attend_kernel<T, KV, Group><<<grid, warp, 0, stream>>>(a);
}

} // namespace

void attend_on_cuda(const attend_args& a, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_type(a.kind, [&](auto t) {
    using T = decltype(t);
    with_type(a.kv.kind, [&](auto kv) {
      with_group(a, [&](auto group) { launch<T, decltype(kv)>(group, a, on); });
    });
    if (a.splits > 1)
      merge_kernel<T><<<dim3(a.rows, a.heads), warp, 0, on>>>(a);
  });
}

} // namespace baton::gpu
