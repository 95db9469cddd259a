// Attention of a stage's steps: a library if the device has one for the model, and our kernels for
// the rest. The choice is made when the stage is created, and logged once.
//
//   Sequences of a step        layer without a window        with one
//   one row, leading         → library, if it has singles  → own kernel
//   from the first prompt on → library, if it has prompts  → the same
#pragma once

#include "runtime/gpu/stage/step_rows.hpp"

namespace baton::gpu {

class step_attention {
public:
  // `log_line` receives a line if the device has a choice. Throws what the device throws.
  step_attention(device& on, const plugin::decoder& model, const plugin::settings& with,
                 const std::function<void(const std::string&)>& log_line);

  // Plans on the host, before the first layer of a step. `is_recorded`: recorded_steps runs the
  // step. Throws what the library throws.
  void plan(const step_rows& rows, bool is_recorded);
  // Computes all rows of the step; fills in their positions, tables and parts.
  void attend(const attend_args& of_layer, const step_rows& rows);

private:
  attend_args part_of(const attend_args& a, std::uint32_t first, std::uint32_t rows) const;
  void attend_itself(attend_args a);

  device& on_;
  chosen_attention chosen_;
  buffer parts_; // attend_args::parts, for the step that needs most
};

// The attention shape of a decoder.
attention_shape shape_of(const plugin::decoder& model, const plugin::settings& with);

} // namespace baton::gpu
