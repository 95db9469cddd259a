// Teams of lanes made of device threads: a warp, and a block. Only for .cu files.
#pragma once

#include "runtime/gpu/device/scalar.hpp"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace baton::gpu {

inline constexpr std::uint32_t warp = 32;
inline constexpr std::uint32_t wide = 256;  // lanes for long rows without synchronisation
inline constexpr std::uint32_t wider = 512; // lanes that synchronise, with little work in between
inline constexpr unsigned all_lanes = 0xFFFFFFFFU;

// A warp. The order of a sum is the same in every launch: halves, quarters, ...
struct warp_lane {
  static constexpr std::uint32_t lanes = warp;
  std::uint32_t lane;

  __device__ float sum(float x) const {
    for (std::uint32_t apart = warp / 2; apart > 0; apart /= 2)
      x += __shfl_xor_sync(all_lanes, x, static_cast<int>(apart));
    return x;
  }
  __device__ float max(float x) const {
    for (std::uint32_t apart = warp / 2; apart > 0; apart /= 2)
      x = fmaxf(x, __shfl_xor_sync(all_lanes, x, static_cast<int>(apart)));
    return x;
  }
  // Over `width` adjacent lanes, a power of two; over the lanes with the same index within `width`.
  __device__ float sum_within(float x, std::uint32_t width) const {
    for (std::uint32_t apart = width / 2; apart > 0; apart /= 2)
      x += __shfl_xor_sync(all_lanes, x, static_cast<int>(apart));
    return x;
  }
  __device__ float sum_across(float x, std::uint32_t width) const {
    for (std::uint32_t apart = warp / 2; apart >= width; apart /= 2)
      x += __shfl_xor_sync(all_lanes, x, static_cast<int>(apart));
    return x;
  }
  // sum += left * right, 16 x 16 by 16 x 8 elements, in the layout of tile_bodies.hpp.
  __device__ void multiply_add(bf16 /*kind*/, const std::uint32_t (&left)[4], std::uint32_t first,
                               std::uint32_t second, float (&sum)[4]) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(first), "r"(second));
  }
  __device__ void multiply_add(f16 /*kind*/, const std::uint32_t (&left)[4], std::uint32_t first,
                               std::uint32_t second, float (&sum)[4]) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(first), "r"(second));
  }
};

// A block, for rows too long for one warp.
template <std::uint32_t Lanes>
struct lane_of_block {
  static constexpr std::uint32_t lanes = Lanes;
  std::uint32_t lane;
  float* shared; // [Lanes / warp]

  __device__ float sum(float x) const {
    const warp_lane own{lane % warp};
    x = own.sum(x);
    __syncthreads(); // the previous sum has been read
    if (own.lane == 0)
      shared[lane / warp] = x;
    __syncthreads();
    float all = 0;
    for (std::uint32_t i = 0; i < Lanes / warp; ++i)
      all += shared[i];
    return all;
  }
  __device__ float max(float x) const {
    const warp_lane own{lane % warp};
    x = own.max(x);
    __syncthreads();
    if (own.lane == 0)
      shared[lane / warp] = x;
    __syncthreads();
    float most = shared[0];
    for (std::uint32_t i = 1; i < Lanes / warp; ++i)
      most = fmaxf(most, shared[i]);
    return most;
  }
  __device__ void sync() const { __syncthreads(); }
  __device__ void add(double* to, double x) const { atomicAdd(to, x); }
};

using block_lane = lane_of_block<wide>;

// Several blocks, whose lanes do not communicate.
struct lane_of_blocks {
  std::uint32_t lane, lanes;
};

// Blocks with one output per warp: their warps share the rows in cache.
inline constexpr std::uint32_t warps = 8; // per block

inline dim3 block_of_warps() {
  return dim3(warp, warps);
}
inline unsigned blocks_for(std::uint64_t outputs) {
  return static_cast<unsigned>((outputs + warps - 1) / warps);
}
// The output of the calling warp; warps beyond the last output have no work.
__device__ inline std::uint64_t own_output() {
  return std::uint64_t{blockIdx.x} * warps + threadIdx.y;
}

} // namespace baton::gpu
