// Steps in which every sequence has one row, recorded once per size and replayed: one launch
// instead of hundreds. A step is padded to the next size.
//
//   a size:  new --first step: run directly--> known --second: recorded, replayed--> recorded
//             ^                                            | fails: logged once, recording is off
//             +---- memory that the steps use has moved ---+         from then on
//
// Used by the stage's thread.
#pragma once

#include "runtime/gpu/device/device.hpp"

#include <map>

namespace baton::gpu {

inline constexpr std::uint32_t recorded_rows_max = 512;

// The padded size of a step: 1, 2, 4, multiples of 8 up to 64, multiples of 32 beyond, up to
// `rows_max`. 0: too large. Requires: rows > 0.
std::uint32_t recorded_size(std::uint32_t rows, std::uint32_t rows_max);

class recorded_steps {
public:
  // `log_line` receives a line per size and per failure.
  recorded_steps(device& on, std::function<void(const std::string&)> log_line)
      : on_(on), log_line_(std::move(log_line)) {}

  bool is_on() const noexcept { return is_on_; }

  // Runs the launches of `work` for a step of this size. `memory` changes whenever memory that
  // `work` uses has moved; `work` launches the same for the same size and `memory`. Throws what a
  // direct run of `work` throws.
  void run(std::uint32_t size, std::uint64_t memory, const std::function<void()>& work);

private:
  void record(std::uint32_t size, const std::function<void()>& work);
  void forget();

  device& on_;
  std::function<void(const std::string&)> log_line_;
  bool is_on_ = true;
  std::uint64_t memory_ = 0;
  std::map<std::uint32_t, std::unique_ptr<recording>> sizes_; // null: run once
};

} // namespace baton::gpu
