#include "runtime/gpu/stage/step_states.hpp"

namespace baton::gpu {

step_states::step_states(device& on, const plugin::decoder& model, std::uint32_t rows)
    : on_(on), model_(model), picked_(on.take(rows * sizeof(std::uint32_t))),
      states_(on.take(rows * std::size_t{model.hidden_size} * sizeof(float))) {}

void step_states::lay_out(const plugin::batch& batch, std::uint32_t buffer_index) {
  buffer_index_ = buffer_index;
  rows_.clear();
  std::uint32_t row = 0;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i) {
    const auto end = row + batch.slices[i].rows;
    for (; row < end; ++row)
      if (batch.slices[i].is_pooled)
        rows_.push_back(row);
  }
  staged_.upload(on_, buffer_index_, picked_.as<void>(), rows_.data(),
                 rows_.size() * sizeof(std::uint32_t));
}

void step_states::compute(float* stream, const float* gain) {
  norm_args a{};
  a.kind = element::f32;
  a.rows = static_cast<std::uint32_t>(rows_.size());
  a.hidden = model_.hidden_size;
  a.picked = picked_.as<std::uint32_t>();
  a.stream = stream;
  a.gain = gain;
  a.epsilon = model_.rms_epsilon;
  a.out = states_.as<void>();
  a.subtracts_mean = model_.norms == plugin::norm_form::layer;
  on_.kernels().norm(a, on_.stream());
}

void step_states::fetch() {
  found_[buffer_index_] = nullptr;
  if (rows_.empty())
    return;
  const std::size_t bytes = rows_.size() * std::size_t{model_.hidden_size} * sizeof(float);
  auto* to = reinterpret_cast<float*>(fetched_.take(on_, buffer_index_, bytes));
  on_.download_later(to, states_.as<void>(), bytes);
  found_[buffer_index_] = to;
}

} // namespace baton::gpu
