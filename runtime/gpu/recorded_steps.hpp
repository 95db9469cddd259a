// Steps in which every sequence has one row, recorded once for each size and run again as they
// were: the host launches one thing in place of hundreds. A step is padded to the next size.
//
//   a size:  new --first step: run as it is--> known --second: recorded, replayed--> recorded
//             ^                                            | fails: said once, nothing is recorded
//             +---- memory that the steps use has moved ---+          from then on
//
// Driven by the stage's thread.
#pragma once

#include "runtime/gpu/device.hpp"

#include <map>

namespace baton::gpu {

inline constexpr std::uint32_t recorded_rows_max = 512;

// The size that a step of so many rows is padded to: 1, 2, 4, eights up to 64, 32s beyond, as far
// as `rows_max` allows. 0: it is too large. Requires: rows > 0.
std::uint32_t recorded_size(std::uint32_t rows, std::uint32_t rows_max);

class recorded_steps {
public:
  // `say` gets a line for each size and for a failure.
  recorded_steps(device& on, std::function<void(const std::string&)> say)
      : on_(on), say_(std::move(say)) {}

  bool is_on() const noexcept { return is_on_; }

  // Runs what `work` launches for a step of that size. `memory` is another number than before when
  // memory that work uses has moved; `work` launches the same for the same size and number.
  // Throws what `work` throws when it is run.
  void run(std::uint32_t size, std::uint64_t memory, const std::function<void()>& work);

private:
  void record(std::uint32_t size, const std::function<void()>& work);
  void forget();

  device& on_;
  std::function<void(const std::string&)> say_;
  bool is_on_ = true;
  std::uint64_t memory_ = 0;
  std::map<std::uint32_t, std::unique_ptr<recording>> sizes_; // null: was run once
};

} // namespace baton::gpu
