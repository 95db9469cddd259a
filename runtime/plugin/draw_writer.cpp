#include "runtime/plugin/draw_writer.hpp"

namespace baton::plugin {
namespace {

std::uint32_t count(const auto& list) {
  return static_cast<std::uint32_t>(list.size());
}

} // namespace

draw_lists draw_writer::write(std::span<const baton::draw> draws) {
  draws_.clear();
  biases_.clear();
  banned_.clear();
  history_.clear();
  for (const baton::draw& d : draws) {
    const auto& s = d.sampling;
    draw to;
    to.token_index = d.token_index;
    to.top_k = static_cast<std::uint32_t>(s.top_k);
    to.seed = s.seed;
    to.temperature = s.temperature;
    to.top_p = s.top_p;
    to.min_p = s.min_p;
    to.repetition_penalty = s.repetition_penalty;
    to.presence_penalty = s.presence_penalty;
    to.frequency_penalty = s.frequency_penalty;
    to.first_bias = count(biases_);
    to.bias_count = count(s.biases);
    to.first_banned = count(banned_);
    to.banned_count = count(d.banned);
    to.first_history = count(history_);
    for (const auto& b : s.biases)
      biases_.push_back({b.token, b.bias});
    banned_.insert(banned_.end(), d.banned.begin(), d.banned.end());
    for (const auto& h : d.history)
      history_.push_back({h.token, h.in_prompt, h.in_output});
    to.history_count = count(history_) - to.first_history;
    draws_.push_back(to);
  }
  return {.draws = draws_.data(),
          .biases = biases_.data(),
          .banned = banned_.data(),
          .history = history_.data(),
          .bias_count = count(biases_),
          .banned_count = count(banned_),
          .history_count = count(history_)};
}

} // namespace baton::plugin
