#include "runtime/gpu/stage/step_draws.hpp"

#include "runtime/gpu/bodies/draw_body.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace baton::gpu {
namespace {

// Expected tokens in a draw's lists; memory for them is allocated in advance.
constexpr std::size_t history_usual = 512;

} // namespace

step_draws::step_draws(device& on, const plugin::decoder& model, const plugin::settings& with,
                       const plugin::host& shard, rank_sums* sums, std::uint32_t draws)
    : on_(on), model_(model), with_(with), shard_(shard), ranks_(sums) {
  reserve(draws);
  if (with_.rank == 0 && can_draw())
    reserve_lists(draws * (sizeof(plugin::draw) + history_usual * sizeof(plugin::token_count)));
}

void step_draws::lay_out(const plugin::batch& batch, std::uint32_t draws,
                         std::uint32_t buffer_index) {
  buffer_index_ = buffer_index;
  auto& own = by_buffer_[buffer_index];
  own = {batch.draws, batch.draws > 0 && batch.how.draws != nullptr && can_draw(), nullptr};
  if (draws > room_)
    reserve(std::min(with_.rows_max, 2 * draws));
  if (own.are_here && with_.rank == 0)
    upload_lists(batch.how);
}

void step_draws::reserve(std::uint32_t draws) {
  ++moves_;
  room_ = 0; // in case the allocation fails
  const std::size_t room = draws;
  const std::size_t own = model_.logit_count, vocabulary = model_.vocabulary_size;
  logits_ = all_logits_ = {};
  logits_ = on_.take(room * own * sizeof(float));
  if (has_ranks() && can_draw())
    all_logits_ = on_.take(room * vocabulary * sizeof(float));
  if (with_.rank == 0 && can_draw()) {
    weights_ = tokens_ = sums_ = buckets_ = drawn_ = {};
    weights_ = on_.take(room * vocabulary * sizeof(float));
    tokens_ = on_.take(room * vocabulary * sizeof(std::uint32_t));
    sums_ = on_.take(room * runs_of(model_.vocabulary_size) * sizeof(double));
    buckets_ = on_.take(room * weight_buckets * sizeof(double));
    drawn_ = on_.take(room * sizeof(std::int32_t));
  }
  room_ = room;
}

void step_draws::reserve_lists(std::size_t bytes) {
  if (bytes <= lists_room_)
    return;
  lists_room_ = 0;
  lists_ = {};
  lists_ = on_.take(std::bit_ceil(bytes));
  lists_room_ = std::bit_ceil(bytes);
}

void step_draws::upload_lists(const plugin::draw_lists& how) {
  host_lists_.clear();
  // Aligned for 8-byte numbers.
  const auto append = [&](const void* list, std::size_t bytes) {
    const std::size_t begin = (host_lists_.size() + 7) / 8 * 8;
    host_lists_.resize(begin + bytes);
    if (bytes > 0)
      std::memcpy(host_lists_.data() + begin, list, bytes);
    return begin;
  };
  const auto draws_at = append(how.draws, by_buffer_[buffer_index_].count * sizeof(plugin::draw));
  const auto biases_at = append(how.biases, how.bias_count * sizeof(plugin::logit_bias));
  const auto banned_at = append(how.banned, how.banned_count * sizeof(std::int32_t));
  const auto history_at = append(how.history, how.history_count * sizeof(plugin::token_count));
  reserve_lists(host_lists_.size());
  staged_.upload(on_, buffer_index_, lists_.as<void>(), host_lists_.data(), host_lists_.size());
  const auto* lists = lists_.as<std::byte>();
  lists_at_.draws = reinterpret_cast<const plugin::draw*>(lists + draws_at);
  lists_at_.biases = reinterpret_cast<const plugin::logit_bias*>(lists + biases_at);
  lists_at_.banned = reinterpret_cast<const std::int32_t*>(lists + banned_at);
  lists_at_.history = reinterpret_cast<const plugin::token_count*>(lists + history_at);
}

void step_draws::launch() {
  const auto& own = by_buffer_[buffer_index_];
  if (!own.are_here)
    return;
  if (has_ranks()) {
    on_.kernels().spread({.rows = own.count,
                          .own = model_.logit_count,
                          .first = model_.first_logit,
                          .width = model_.vocabulary_size,
                          .from = logits_.as<float>(),
                          .out = all_logits_.as<float>()},
                         on_.stream());
    ranks_->sum(all_logits_.as<float>(), std::size_t{own.count} * model_.vocabulary_size);
  }
  if (with_.rank == 0)
    draw();
}

void step_draws::draw() {
  draw_args a = lists_at_;
  a.rows = by_buffer_[buffer_index_].count;
  a.vocabulary = model_.vocabulary_size;
  a.logits = has_ranks() ? all_logits_.as<float>() : logits_.as<float>();
  a.weights = weights_.as<float>();
  a.tokens = tokens_.as<std::uint32_t>();
  a.sums = sums_.as<double>();
  a.buckets = buckets_.as<double>();
  a.drawn = drawn_.as<std::int32_t>();
  on_.kernels().draw(a, on_.stream());
}

void step_draws::fetch() {
  auto& own = by_buffer_[buffer_index_];
  if (own.count == 0 || with_.rank != 0 || (has_ranks() && !own.are_here))
    return;
  const void* from = own.are_here ? drawn_.as<void>() : logits_.as<void>();
  const std::size_t bytes =
      own.count * (own.are_here ? sizeof(std::int32_t) : model_.vocabulary_size * sizeof(float));
  own.fetched = fetched_.take(on_, buffer_index_, bytes);
  on_.download_later(own.fetched, from, bytes);
}

plugin::outcome step_draws::take(std::uint32_t buffer_index) {
  const auto& own = by_buffer_[buffer_index];
  plugin::outcome out;
  if (own.count > 0 && has_ranks() && !own.are_here)
    out.logits = gathered(own.count);
  else if (own.are_here)
    out.tokens = reinterpret_cast<const std::int32_t*>(own.fetched);
  else
    out.logits = reinterpret_cast<float*>(own.fetched);
  return out;
}

// The gathered logits [draws, vocabulary] at rank 0.
float* step_draws::gathered(std::size_t draws) {
  const std::size_t own = model_.logit_count, vocabulary = model_.vocabulary_size;
  if (with_.rank == 0)
    host_logits_.resize(draws * vocabulary);
  own_logits_.resize(draws * own);
  on_.download(own_logits_.data(), logits_.as<void>(), draws * own * sizeof(float));
  for (std::size_t i = 0; i < draws; ++i) {
    plugin::failure why;
    float* all = with_.rank == 0 ? host_logits_.data() + i * vocabulary : nullptr;
    if (const auto s = shard_.gather(shard_.context, own_logits_.data() + i * own, own, all, &why);
        s != plugin::status::ok)
      throw refused(s, why.message);
  }
  return with_.rank == 0 ? host_logits_.data() : nullptr;
}

} // namespace baton::gpu
