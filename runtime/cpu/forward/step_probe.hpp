// Measures a decode step of a model on this machine before serving: runs the engine with the
// model's weights, or for large models with some of its layers.
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"

namespace baton::cpu {

// Size of weights to load: a little more than the caches hold, and quick to read.
inline constexpr std::uint64_t probe_weights_max = std::uint64_t{1} << 30U;
// Positions of each sequence, as in the middle of a short answer.
inline constexpr std::uint32_t probe_positions = 128;

// The threads of one engine.
struct probe_threads {
  std::uint32_t threads = 1;
  std::vector<int> cpus; // as config.cpus
};

class step_probe {
public:
  // One engine per entry, sharing the weights. `like` provides the KV type and activation bits.
  // Errors: as engine_cpu::load.
  static result<step_probe> load(const model::model_file& file, const model::description& model,
                                 const config& like, std::vector<probe_threads> engines,
                                 std::uint32_t rows_max);

  // Seconds per step of `rows` sequences, scaled to the whole model, for each engine: the median
  // over 0.2 s. `at_once`: all engines run in parallel, otherwise one after another. Errors: as
  // engine::run. Requires: 0 < rows <= rows_max.
  result<std::vector<double>> measure(std::uint32_t rows, bool at_once);

private:
  std::vector<std::unique_ptr<engine_cpu>> engines_; // one per entry
  model::layer_range range_;
  std::uint32_t hidden_size_ = 0;
  const model::description* model_ = nullptr;
};

} // namespace baton::cpu
