#include "runtime/plugin/batch_writer.hpp"

#include <algorithm>

namespace baton::plugin {
namespace {

// A device scans all logits once per kept token: 256 scans of 128k logits take about 1 ms of a GPU
// and delay the whole step. Above this limit the shard draws; there the CPU's sampler also stops
// using its heap (heap_top_k_max).
constexpr std::int32_t device_top_k_max = 256;
// Up to here the sums of a nucleus are exact in vocabularies of up to 2^18 tokens. Rounding needs a
// border with at most 2^-9 of all weight below it. The device then finds the border in a few scans
// (is_sum_exact, draw_body.hpp). Above, it scans once per token there.
constexpr float device_top_p_max = 0.998F;

bool is_for_device(const baton::draw& d) {
  const auto& s = d.sampling;
  return s.logprobs < 0 && !s.constraint && s.typical_p >= 1 && !s.has_watermark() &&
         s.top_k <= device_top_k_max && (s.top_p >= 1 || s.top_p <= device_top_p_max);
}

bool has_penalties(const baton::draw& d) {
  const auto& s = d.sampling;
  return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
}

template <class T>
std::uint32_t count(const std::vector<T>& list) {
  return static_cast<std::uint32_t>(list.size());
}

} // namespace

void batch_writer::write_slices(const micro_batch& from, const batch_reader& to) {
  slices_.clear();
  for (const auto& s : from.slices)
    slices_.push_back({.position = s.position,
                       .rows = s.rows,
                       .draws = s.draws(),
                       .blocks = s.blocks.data(),
                       .block_count = count(s.blocks)});
  for (const auto& p : from.pools) {
    auto& of = slices_[p.slice];
    of.is_pooled = p.how != pooling::scores;
    if (!of.is_pooled && to.heads)
      of.draws = of.rows;
  }
  draw_rows_.clear();
  score_rows_.clear();
  for (std::size_t i = 0, row = 0; i < slices_.size(); ++i) {
    auto& rows = from.slices[i].draws() > 0 ? draw_rows_ : score_rows_;
    for (std::uint32_t k = 0; k < slices_[i].draws; ++k)
      rows.push_back(row++);
  }
}

const batch& batch_writer::write(const micro_batch& from, std::span<const float> activations,
                                 const batch_reader& to) {
  write_slices(from, to);
  copies_.clear();
  for (const auto& c : from.copies)
    copies_.push_back({c.block, c.swap_block, c.is_out});
  feeds_.clear();
  for (const auto& f : from.feeds)
    feeds_.push_back({f.row, f.draw});
  batch b;
  b.number = from.batch.value;
  b.epoch = from.epoch.value;
  b.slices = slices_.data();
  b.slice_count = count(slices_);
  b.rows = from.rows();
  b.draws = count(draw_rows_) + count(score_rows_);
  b.tokens = from.tokens.data();
  b.activations = to.embeds ? nullptr : activations.data();
  b.copies = copies_.data();
  b.copy_count = count(copies_);
  b.feeds = feeds_.data();
  b.feed_count = count(feeds_);
  if (to.heads && to.draws_itself && !from.draws.empty() && score_rows_.empty() &&
      std::all_of(from.draws.begin(), from.draws.end(), is_for_device))
    b.how = draws_.write(from.draws);
  return batch_ = b;
}

bool batch_writer::can_feed(const micro_batch& next, const batch_reader& to) const {
  const auto is_sound = [&](const baton::feed& f) {
    return f.batch.value == batch_.number && f.draw < batch_.draws && f.row < next.tokens.size() &&
           next.tokens[f.row] == placeholder_token;
  };
  const auto to_come = std::count(next.tokens.begin(), next.tokens.end(), placeholder_token);
  return to.embeds && batch_.how.draws != nullptr && batch_.epoch == next.epoch.value &&
         std::all_of(next.feeds.begin(), next.feeds.end(), is_sound) &&
         static_cast<std::size_t>(to_come) == next.feeds.size() &&
         std::none_of(next.draws.begin(), next.draws.end(), has_penalties);
}

} // namespace baton::plugin
