// The mixtures of a stage's layers: each row passes through the experts that the router selects.
// There are two paths. Up to expert_rows_on_device() rows the device groups the rows by expert, and
// our own kernels multiply (expert_bodies.hpp): no wait for the host, and steps can be recorded.
// For more rows the host groups them and the device multiplies expert by expert. This uses tensor
// cores, but waits in every layer. It is also the reference for the first path.
#pragma once

#include "runtime/gpu/stage/stage_products.hpp"

namespace baton::gpu {

// The most rows for the first path on this device and model; 0: never, for example if rows of
// weights are no multiples of 16 bytes. Requires: the model has experts.
std::uint32_t expert_rows_on_device(const device& on, const plugin::decoder& model,
                                    const plugin::settings& with);

class expert_layers {
public:
  // Allocates the memory for steps and uploads the addresses of the experts' weights. Keeps
  // references to all arguments except `layers`. Throws what the device throws.
  expert_layers(device& on, const plugin::decoder& model, const plugin::settings& with,
                stage_products& products, const std::vector<layer_weights>& layers);

  // out = the weighted sum of the experts of layer `index` for each row. `in`: [rows, hidden] of
  // settings::weights; `out`: [rows, hidden] float32. `sums`: of the ranks, which finish before the
  // host waits; null: none. Throws what the device and `sums` throw.
  void run(std::size_t index, const layer_weights& layer, std::uint32_t rows, const void* in,
           float* out, rank_sums* sums);

private:
  struct expert_rows { // of a step, for one expert
    std::vector<std::uint32_t> rows;
    std::vector<float> weights;
  };
  struct expert_matrices { // [experts] of a layer, on the device
    const matrix* gate_up;
    const matrix* down;
  };
  void take_memory();
  void upload_addresses(const std::vector<layer_weights>& layers);
  void run_on_device(const expert_matrices& of, const layer_weights& layer, std::uint32_t rows,
                     const void* in, float* out);
  void run_by_host(const layer_weights& layer, std::uint32_t rows, const void* in, float* out,
                   rank_sums* sums);
  void run_expert(const layer_weights& layer, std::size_t index, const void* in, float* out);

  device& on_;
  const plugin::decoder& model_;
  const plugin::settings& with_;
  stage_products& products_;
  std::uint32_t rows_on_device_;
  buffer scores_, chosen_, weights_;    // [rows, experts], [rows, used] twice
  buffer gate_up_, gated_, expert_out_; // [rows or pairs, 2 * ffn], [.., ffn], [.., hidden] float32
  // For the device path: group_args, and the addresses of each layer's matrices.
  buffer counts_, tiles_, pairs_, order_, matrices_;
  std::vector<expert_matrices> layer_matrices_; // [layer]
  // For the host path: [rows, hidden], [rows] twice.
  buffer expert_in_, picked_, picked_weights_;
  std::vector<std::uint32_t> host_chosen_;
  std::vector<float> host_weights_;
  std::vector<expert_rows> by_expert_;
};

} // namespace baton::gpu
