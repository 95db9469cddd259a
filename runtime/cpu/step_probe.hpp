// What a decode step of a model takes on this machine, before it is served: the engine itself, run
// with the model's weights or, where they are many, with those of some of its layers.
#pragma once

#include "runtime/cpu/engine_cpu.hpp"

namespace baton::cpu {

// Of weights that are loaded for it: a little more than caches hold, and quickly read.
inline constexpr std::uint64_t probe_weights_max = std::uint64_t{1} << 30U;
// Held by each sequence: as in the middle of a short answer.
inline constexpr std::uint32_t probe_positions = 128;

// The threads of one engine.
struct probe_seat {
  std::uint32_t threads = 1;
  std::vector<int> cpus; // as config.cpus
};

class step_probe {
public:
  // One engine for each seat, over the same weights. `like`: type of the KV and bits of the
  // activations. Errors: as engine_cpu::load.
  static result<step_probe> load(const model::model_file& file, const model::description& model,
                                 const config& like, std::vector<probe_seat> seats,
                                 std::uint32_t rows_max);

  // Seconds that a step of so many sequences takes in the whole model, by seat: the median of those
  // in 0.2 s. `at_once`: all engines beside one another, else in turns. Errors: as engine::run.
  // Requires: 0 < rows <= rows_max.
  result<std::vector<double>> measure(std::uint32_t rows, bool at_once);

private:
  std::vector<std::unique_ptr<engine_cpu>> engines_; // by seat
  model::layer_range range_;
  std::uint32_t hidden_size_ = 0;
  const model::description* model_ = nullptr;
};

} // namespace baton::cpu
