// The mixtures of a stage's layers: each row through the experts that the router chooses for it.
// Two ways. Up to expert_rows_on_device() rows the device finds by itself which rows an expert has,
// and kernels of our own multiply (expert_bodies.hpp): nothing waits for the host, and a step can
// be recorded. For more rows the host groups them and the device multiplies expert by expert, which
// has tensor cores but waits in every layer. The second is the oracle of the first.
#pragma once

#include "runtime/gpu/stage_products.hpp"

namespace baton::gpu {

// Up to how many rows the first way is taken on that device for such a model; 0: never, as weights
// whose rows are no multiples of 16 bytes have it. Requires: the model has experts.
std::uint32_t expert_rows_on_device(const device& on, const plugin::decoder& model,
                                    const plugin::settings& with);

class expert_layers {
public:
  // Takes the memory that steps need, and tells the device where the experts' weights are. Keeps
  // references to all but `layers`. Throws what the device throws.
  expert_layers(device& on, const plugin::decoder& model, const plugin::settings& with,
                stage_products& products, const std::vector<layer_weights>& layers);

  // out = what the experts of layer `index` give for each row, weighed: of `in`, [rows, hidden] of
  // settings::weights; out [rows, hidden] float32. `sums`: of the ranks, whose work is waited for
  // before the host is; null: there are none. Throws what the device and `sums` throw.
  void run(std::size_t index, const layer_weights& layer, std::uint32_t rows, const void* in,
           float* out, rank_sums* sums);

private:
  struct expert_rows { // of a step, of one expert
    std::vector<std::uint32_t> rows;
    std::vector<float> weights;
  };
  struct expert_places { // [experts] of a layer, on the device
    const matrix* gate_up;
    const matrix* down;
  };
  void take_memory();
  void place(const std::vector<layer_weights>& layers);
  void run_on_device(const expert_places& of, std::uint32_t rows, const void* in, float* out);
  void run_by_host(const layer_weights& layer, std::uint32_t rows, const void* in, float* out,
                   rank_sums* sums);
  void run_expert(const ffn_weights& expert, const expert_rows& own, const void* in, float* out);

  device& on_;
  const plugin::decoder& model_;
  const plugin::settings& with_;
  stage_products& products_;
  std::uint32_t rows_on_device_;
  buffer scores_, chosen_, weights_;    // [rows, experts], [rows, used] twice
  buffer gate_up_, gated_, expert_out_; // [rows or pairs, 2 * ffn], [.., ffn], [.., hidden] float32
  // Of the device's way: group_args, and where each layer's matrices are.
  buffer counts_, tiles_, pairs_, order_, matrices_;
  std::vector<expert_places> places_; // [layer]
  // Of the host's way: [rows, hidden], [rows] twice.
  buffer expert_in_, picked_, picked_weights_;
  std::vector<std::uint32_t> host_chosen_;
  std::vector<float> host_weights_;
  std::vector<expert_rows> by_expert_;
};

} // namespace baton::gpu
