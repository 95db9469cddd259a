// A team of lanes for the kernel bodies as threads of the test. Interactions between the lanes of a
// warp become visible here, without a device.
#pragma once

#include "runtime/gpu/device/scalar.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

namespace baton::testing {

struct lane_meeting {
  explicit lane_meeting(std::uint32_t count)
      : barrier(static_cast<std::ptrdiff_t>(count)), values(count) {}
  std::barrier<> barrier;
  std::vector<float> values;
};

struct thread_lane {
  std::uint32_t lane = 0, lanes = 1;
  lane_meeting* meeting = nullptr;

  template <class Join>
  float join(float x, const Join& with) const {
    meeting->values[lane] = x;
    meeting->barrier.arrive_and_wait();
    float all = meeting->values[0];
    for (std::uint32_t i = 1; i < lanes; ++i)
      all = with(all, meeting->values[i]);
    meeting->barrier.arrive_and_wait();
    return all;
  }
  float join_some(float x, std::uint32_t first, std::uint32_t step, std::uint32_t count) const {
    meeting->values[lane] = x;
    meeting->barrier.arrive_and_wait();
    float all = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      all += meeting->values[first + i * step];
    meeting->barrier.arrive_and_wait();
    return all;
  }
  float sum_within(float x, std::uint32_t width) const {
    return join_some(x, lane / width * width, 1, width);
  }
  float sum_across(float x, std::uint32_t width) const {
    return join_some(x, lane % width, width, lanes / width);
  }
  void sync() const { meeting->barrier.arrive_and_wait(); }
  void add(double* to, double x) const { std::atomic_ref<double>(*to).fetch_add(x); }
  float sum(float x) const {
    return join(x, [](float a, float b) { return a + b; });
  }
  float max(float x) const {
    return join(x, [](float a, float b) { return a > b ? a : b; });
  }
};

// A warp of 32 lanes that has the tensor cores' instruction of tile_bodies.hpp.
struct warp_meeting {
  std::barrier<> barrier{32};
  std::uint32_t left[32][4] = {}, right[32][2] = {};
};
struct thread_warp_lane {
  std::uint32_t lane = 0;
  warp_meeting* meeting = nullptr;

  // As PTX describes mma.m16n8k16. A lane holds row lane / 4 of `left`, and 8 rows further in the
  // odd registers, and column lane / 4 of `right`. Registers have columns 2 * (lane % 4) and the
  // next, then 8 further. Its sums are those rows by columns 2 * (lane % 4) and the next.
  template <class T>
  void multiply_add(T /*kind*/, const std::uint32_t (&left)[4], std::uint32_t first,
                    std::uint32_t second, float (&sum)[4]) const {
    std::copy(left, left + 4, meeting->left[lane]);
    meeting->right[lane][0] = first, meeting->right[lane][1] = second;
    meeting->barrier.arrive_and_wait();
    const auto half = [](std::uint32_t word, std::uint32_t which) {
      return gpu::widen(T{static_cast<std::uint16_t>(word >> (16 * which))});
    };
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (std::uint32_t k = 0; k < 16; ++k) {
        const std::uint32_t quarter = k % 8 / 2;
        sum[i] += half(meeting->left[row % 8 * 4 + quarter][row / 8 + k / 8 * 2], k % 2) *
                  half(meeting->right[column * 4 + quarter][k / 8], k % 2);
      }
    }
    meeting->barrier.arrive_and_wait();
  }
};
template <class Body>
void run_warp(const Body& body) {
  warp_meeting meeting;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 32; ++i)
    threads.emplace_back([&, i] {
      thread_warp_lane own{i, &meeting};
      body(own);
    });
  for (auto& each : threads)
    each.join();
}

// Runs body(lane) on that many lanes at once.
template <class Body>
void run_lanes(std::uint32_t count, const Body& body) {
  lane_meeting meeting(count);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      thread_lane own{i, count, &meeting};
      body(own);
    });
  for (auto& each : threads)
    each.join();
}

} // namespace baton::testing
