// Attention of a stage's steps: a library's where the device has one for the model, our kernels for
// what is left. Which one has which rows is decided when the stage is made, and said once.
//
//   sequences of a step      layer without a window      with one
//   of one row, leading      library, if it has singles  own kernel
//   from the first prompt on library, if it has prompts  the same
#pragma once

#include "runtime/gpu/step_rows.hpp"

namespace baton::gpu {

class step_attention {
public:
  // `say` gets a line where the device has a choice. Throws what the device throws.
  step_attention(device& on, const plugin::decoder& model, const plugin::settings& with,
                 const std::function<void(const std::string&)>& say);

  // Before the first layer of a step: what is planned on the host. `is_recorded`: the step is of
  // those that recorded_steps runs. Throws what the library throws.
  void plan(const step_rows& rows, bool is_recorded);
  // For all rows of the step, whose positions, tables and parts are filled in here.
  void attend(const attend_args& of_layer, const step_rows& rows);

private:
  attend_args part_of(const attend_args& a, std::uint32_t first, std::uint32_t rows) const;
  void attend_itself(attend_args a);

  device& on_;
  chosen_attention chosen_;
  buffer parts_; // attend_args::parts, of the step that needs most
};

// Of a decoder, as attention sees it.
attention_shape shape_of(const plugin::decoder& model, const plugin::settings& with);

} // namespace baton::gpu
