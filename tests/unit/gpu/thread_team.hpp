// A team of lanes for the kernel bodies as threads of the test. Interactions between the lanes of a
// warp become visible here, without a device.
#pragma once

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
