#include "runtime/gpu/stage/stage.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace baton::gpu {
namespace {

// In units of the largest step: one being sent, one that the sender keeps until it has arrived, and
// two more for steps in flight.
constexpr std::uint64_t slabs_of_full_steps = 4;

void check(const plugin::decoder& m, const plugin::settings& with) {
  const auto refuse = [](const std::string& what) {
    throw refused(plugin::status::unsupported_model, "does not run " + what);
  };
  if (m.head_size == 0 || m.head_size > head_size_max)
    refuse("heads of " + std::to_string(m.head_size) + " (at most " +
           std::to_string(head_size_max) + ")");
  if (m.kv_head_count == 0 || m.head_count % m.kv_head_count != 0)
    refuse("heads that do not share KV heads evenly");
  if (m.rotated_dimensions > m.head_size || m.rotated_dimensions % 2 != 0)
    refuse("this number of rotated dimensions");
  if (m.expert_count > experts_max || m.expert_used_count > experts_used_max ||
      m.expert_used_count > m.expert_count)
    refuse(std::to_string(m.expert_used_count) + " of " + std::to_string(m.expert_count) +
           " experts");
  for (std::uint32_t i = 0; i < m.layer_count; ++i)
    if (m.layers[i].is_rotated && m.layers[i].rotation >= m.rotation_count)
      refuse("this rotation");
  if (with.quantized != plugin::quantization::none && with.quantized != plugin::quantization::fp8 &&
      with.quantized != plugin::quantization::int4)
    throw refused(plugin::status::invalid_value, "unknown quantization");
  if (with.quantized == plugin::quantization::int4 && with.group != 32 && with.group != 128)
    throw refused(plugin::status::invalid_value, "groups of int4 must be 32 or 128");
  // plus a spare block that belongs to no sequence
  if ((std::uint64_t{with.blocks} + 1) * with.block_positions > UINT32_MAX)
    throw refused(plugin::status::invalid_value, "more positions than 32 bits count");
  if (with.width > 1 && with.rank >= with.width)
    throw refused(plugin::status::invalid_value, "the rank is not in its group");
}

} // namespace

std::uint32_t begun_max_of(const device& on, const plugin::settings& with) noexcept {
  return on.is_asynchronous() && with.width == 1 ? buffer_count : 0;
}

stage::stage(std::shared_ptr<device> on, const plugin::decoder& model, const plugin::settings& with,
             const plugin::host& shard)
    : on_(std::move(on)), model_(model), layers_(model.layers, model.layers + model.layer_count),
      with_(with), shard_(shard) {
  check(model, with);
  weights_ = load_weights(*on_, model, with, shard);
  model_.layers = layers_.data();
  model_.rotations = nullptr; // owned by the caller; now in the tables
  with_.device = "";
  const auto log_line = [this](const std::string& line) {
    if (shard_.log_line != nullptr)
      shard_.log_line(shard_.context, line.c_str());
  };
  if (!with_.is_eager && on_->can_record() && with_.width == 1 && rows_without_host() > 0)
    recorded_.emplace(*on_, log_line);
  take_memory();
  attention_.emplace(*on_, model_, with_, log_line);
  if (with_.width > 1)
    sums_ = on_->sums(with_, shard_);
  if (model_.heads) {
    // Recorded steps are padded.
    const auto draws = std::min(std::max(with_.draws_usual, 1U), with_.rows_max);
    draws_.emplace(*on_, model_, with_, shard_, sums_.get(),
                   std::max(draws, recorded_size(draws, with_.rows_max)));
  }
  if (model_.heads && with_.rank == 0)
    states_.emplace(*on_, model_, with_.rows_max);
  warm_up();
  take_kv(); // last: then a lack of memory concerns the KV cache, whose size the operator chooses
}

void stage::take_memory() {
  const auto& m = model_;
  const std::uint64_t rows = with_.rows_max, own = bytes_of(with_.weights),
                      query = std::uint64_t{m.head_count} * m.head_size,
                      kv = std::uint64_t{m.kv_head_count} * m.head_size;
  rows_.emplace(*on_, with_);
  products_.emplace(*on_, with_,
                    m.hidden_size * std::max({query + 2 * kv, 2 * std::uint64_t{ffn_size()}}));
  stream_ = on_->take(rows * m.hidden_size * sizeof(float));
  added_ = on_->take(rows * m.hidden_size * sizeof(float));
  normed_ = on_->take(rows * m.hidden_size * own);
  projected_ = on_->take(rows * (query + 2 * kv) * own);
  attended_ = on_->take(rows * query * own);
  if (m.expert_count == 0) {
    gate_up_ = on_->take(rows * 2 * m.ffn_size * own);
    gated_ = on_->take(rows * m.ffn_size * own);
  }
  if (with_.width > 1)
    host_rows_ = on_->take_host(rows * m.hidden_size * sizeof(float));
  for (std::uint32_t buffer_index = 0; buffer_index < buffer_count; ++buffer_index) {
    if (!m.embeds)
      incoming_[buffer_index] = on_->take(rows * m.hidden_size * sizeof(float));
    if (!m.heads)
      outgoing_[buffer_index] = on_->take(rows * m.hidden_size * sizeof(float));
  }
  if (!m.heads)
    slabs_.emplace([this](std::uint64_t bytes) { return on_->take_host(bytes); },
                   slabs_of_full_steps * std::bit_ceil(rows * m.hidden_size * sizeof(float)));
  if (m.expert_count > 0)
    experts_.emplace(*on_, model_, with_, *products_, weights_.layers);
}

// Libraries allocate their own memory in their first product.
void stage::warm_up() {
  const std::uint64_t query = std::uint64_t{model_.head_count} * model_.head_size,
                      kv = std::uint64_t{model_.kv_head_count} * model_.head_size;
  multiply(
      query + 2 * kv, model_.hidden_size, normed_.as<void>(), weights_.layers.front().projection,
      projected_.as<void>(), false,
      std::min(with_.rows_max, std::max(packed_rows_max, on_->tile_rows_max(with_.weights)) + 1));
}

void stage::take_kv() {
  // Padding rows use a block of their own.
  const std::uint64_t blocks = std::uint64_t{with_.blocks} + (recorded_ ? 1 : 0);
  for (std::uint32_t i = 0; i < model_.layer_count; ++i) {
    keys_.push_back(on_->take(blocks * kv_bytes_of_block()));
    values_.push_back(on_->take(blocks * kv_bytes_of_block()));
  }
  if (with_.swap_blocks > 0)
    swap_.reset(new std::byte[with_.swap_blocks * kv_bytes_of_block() * 2 * model_.layer_count]);
}

std::uint64_t stage::kv_bytes_of_block() const noexcept {
  return std::uint64_t{model_.kv_head_count} * model_.head_size * with_.block_positions *
         bytes_of(with_.kv);
}

// The most rows of a step that needs no data from the device on the host.
std::uint32_t stage::rows_without_host() const {
  return model_.expert_count > 0 ? expert_rows_on_device(*on_, model_, with_) : with_.rows_max;
}

std::uint32_t stage::ffn_size() const noexcept {
  return model_.expert_count > 0 ? model_.expert_ffn_size : model_.ffn_size;
}

paged_kv stage::kv_of(std::uint32_t layer) const {
  return {.kind = with_.kv,
          .keys = keys_[layer].as<void>(),
          .values = values_[layer].as<void>(),
          .block_positions = with_.block_positions,
          .kv_heads = model_.kv_head_count,
          .head_size = model_.head_size};
}

stage::~stage() {
  forget_begun();
}

plugin::outcome stage::run(const plugin::batch& batch) {
  if (!is_next(batch)) {
    forget_begun();
    return take(launch(batch));
  }
  launched step = std::move(begun_.front());
  begun_.pop_front();
  return take(std::move(step));
}

bool stage::begin(const plugin::batch& batch) noexcept {
  try {
    if (begun_.size() >= begun_max_of(*on_, with_) || !can_begin(batch))
      return false;
    begun_.push_back(launch(batch));
    return true;
  } catch (const std::exception&) { // run() reports the error
    return false;
  }
}

bool stage::is_next(const plugin::batch& batch) const noexcept {
  return !begun_.empty() && begun_.front().number == batch.number &&
         begun_.front().epoch == batch.epoch;
}

// Whether launching needs no wait for the device: neither for swap space nor for memory of rows.
bool stage::can_begin(const plugin::batch& batch) const {
  return batch.copy_count == 0 && batch.rows <= rows_without_host() &&
         (batch.feed_count == 0 ||
          (model_.embeds && draws_ && !begun_.empty() && draws_->drawn() != nullptr));
}

stage::launched stage::launch(const plugin::batch& batch) {
  launched step{.number = batch.number,
                .epoch = batch.epoch,
                .buffer_index = buffer_index_,
                .rows = nullptr,
                .may_be_kept = false,
                .end = nullptr};
  buffer_index_ = (buffer_index_ + 1) % buffer_count;
  try {
    enqueue(batch, step);
    return step;
  } catch (...) {
    if (with_.width == 1) // the wait would never end for ranks that are gone
      wait_for_device();
    if (step.may_be_kept)
      slabs_->give_back(step.rows);
    throw;
  }
}

void stage::enqueue(const plugin::batch& batch, launched& step) {
  if (sums_)
    sums_->enter(batch.epoch);
  make_copies(batch);
  const std::uint32_t size = size_to_record(batch);
  lay_out(batch, size, step.buffer_index);
  if (size > 0)
    recorded_->run(size, rows_->moves() + (draws_ ? draws_->moves() : 0), [this] { compute(); });
  else
    compute();
  if (draws_)
    draws_->launch();
  if (sums_) // a copy back would wait forever for ranks that are gone
    sums_->finish();
  if (draws_)
    draws_->fetch();
  else
    fetch_rows(batch, step);
  if (states_)
    states_->fetch();
  on_->check_launches(); // a step without copies back would not report launch errors
  step.end = on_->set_mark();
}

// The discarded steps only wrote KV positions of their own rows.
void stage::forget_begun() noexcept {
  if (begun_.empty())
    return;
  wait_for_device();
  for (const auto& step : begun_)
    if (step.may_be_kept)
      slabs_->give_back(step.rows);
  begun_.clear();
}

// Waits for the device to finish, if it still works.
void stage::wait_for_device() noexcept {
  try {
    on_->set_mark()->wait();
  } catch (...) { // the next step reports the error
  }
}

plugin::outcome stage::take(launched step) {
  try {
    step.end->wait();
  } catch (...) {
    if (step.may_be_kept)
      slabs_->give_back(step.rows);
    throw;
  }
  if (draws_) {
    auto out = draws_->take(step.buffer_index);
    out.states = states_ ? states_->take(step.buffer_index) : nullptr;
    return out;
  }
  plugin::outcome out;
  out.activations = step.rows;
  out.may_be_kept = step.may_be_kept;
  return out;
}

// Copies rows out. If too many slabs are in use (a slow next stage), uses memory that the caller
// must copy from. The source is the step's own memory, because the next step overwrites the stream.
void stage::fetch_rows(const plugin::batch& batch, launched& step) {
  const std::uint64_t bytes = std::uint64_t{batch.rows} * model_.hidden_size * sizeof(float);
  step.rows = slabs_->take(bytes);
  step.may_be_kept = step.rows != nullptr;
  if (!step.may_be_kept)
    step.rows = reinterpret_cast<float*>(unkept_.take(*on_, step.buffer_index, bytes));
  void* own = outgoing_[step.buffer_index].as<void>();
  on_->copy_later(own, stream_.as<void>(), bytes);
  on_->download_beside(step.rows, own, bytes);
}

void stage::make_copies(const plugin::batch& batch) {
  const std::uint64_t part = kv_bytes_of_block();
  for (std::uint32_t i = 0; i < batch.copy_count; ++i) {
    const auto& c = batch.copies[i];
    std::byte* host = swap_.get() + c.swap_block * part * 2 * model_.layer_count;
    for (std::uint32_t layer = 0; layer < model_.layer_count; ++layer)
      for (const auto* pages : {&keys_[layer], &values_[layer]}) {
        std::byte* own = pages->as<std::byte>() + c.block * part;
        if (c.is_out)
          on_->download(host, own, part);
        else
          on_->upload(own, host, part);
        host += part;
      }
  }
}

// The padded size of a step in which every sequence has one row and draws; otherwise 0.
std::uint32_t stage::size_to_record(const plugin::batch& batch) const {
  const bool has_a_row_each = batch.slice_count == batch.rows;
  if (!recorded_ || !recorded_->is_on() || !has_a_row_each || batch.rows == 0 ||
      (model_.heads && batch.draws != batch.rows))
    return 0;
  return recorded_size(batch.rows, rows_without_host());
}

// Sets everything that differs between steps of a size, and all memory that the step needs.
void stage::lay_out(const plugin::batch& batch, std::uint32_t size, std::uint32_t buffer_index) {
  if (size > 0)
    rows_->set_padded(*on_, batch, with_.block_positions, size, with_.blocks, buffer_index);
  else
    rows_->set(*on_, batch, with_.block_positions, buffer_index);
  if (batch.feed_count > 0)
    rows_->feed(*on_, draws_->drawn()); // before that memory may move
  attention_->plan(*rows_, /*is_recorded=*/size > 0);
  if (draws_)
    draws_->lay_out(batch, rows_->draws(), buffer_index);
  if (states_)
    states_->lay_out(batch, buffer_index);
  if (!model_.embeds)
    upload_rows(batch, size, buffer_index);
}

// Copies concurrently to the step's own memory, because the previous step still uses the stream.
void stage::upload_rows(const plugin::batch& batch, std::uint32_t size,
                        std::uint32_t buffer_index) {
  const std::size_t row_bytes = model_.hidden_size * sizeof(float);
  const std::size_t bytes = batch.rows * row_bytes;
  std::byte* kept = staged_.take(*on_, buffer_index, bytes);
  std::memcpy(kept, batch.activations, bytes);
  on_->upload_beside(incoming_[buffer_index].as<void>(), kept, bytes);
  on_->copy_later(stream_.as<void>(), incoming_[buffer_index].as<void>(), bytes);
  if (size > batch.rows)
    on_->zero(stream_.as<std::byte>() + bytes, (size - batch.rows) * row_bytes);
}

// Depends only on `rows_` and on device memory, so it can be recorded.
void stage::compute() {
  has_added_ = false;
  if (model_.embeds)
    on_->kernels().embed({.kind = with_.weights,
                          .rows = rows_->rows(),
                          .hidden = model_.hidden_size,
                          .tokens = rows_->tokens(),
                          .table = weights_.embedding,
                          .scale = model_.embedding_scale,
                          .out = stream_.as<float>()},
                         on_->stream());
  for (std::uint32_t i = 0; i < model_.layer_count; ++i)
    run_layer(i);
  norm(weights_.layers.back().post_ffn_norm, nullptr);
  if (model_.heads && rows_->draws() > 0)
    make_logits();
  if (states_ && states_->has_rows())
    states_->compute(stream_.as<float>(), weights_.output_norm);
}

// Adds the pending rows to the stream, then computes its norm if there is a gain.
void stage::norm(const float* added_gain, const float* gain) {
  norm_args a{};
  a.kind = with_.weights;
  a.rows = rows_->rows();
  a.hidden = model_.hidden_size;
  a.stream = stream_.as<float>();
  a.added = has_added_ ? added_.as<float>() : nullptr;
  a.added_gain = added_gain;
  a.added_scale = model_.residual_scale;
  a.gain = gain;
  a.epsilon = model_.rms_epsilon;
  a.out = normed_.as<void>();
  on_->kernels().norm(a, on_->stream());
  has_added_ = false;
}

void stage::multiply(std::uint64_t outputs, std::uint64_t columns, const void* in,
                     const matrix& weights, void* out, bool is_out_f32, std::uint32_t rows) {
  products_->multiply({.kind = with_.weights,
                       .rows = rows,
                       .columns = columns,
                       .outputs = outputs,
                       .in = in,
                       .weights = nullptr,
                       .out = out,
                       .is_out_f32 = is_out_f32},
                      weights);
}

void stage::run_layer(std::uint32_t index) {
  const auto& m = model_;
  const layer_weights& w = weights_.layers[index];
  const plugin::layer& layer = layers_[index];
  const std::uint64_t query = std::uint64_t{m.head_count} * m.head_size,
                      kv = std::uint64_t{m.kv_head_count} * m.head_size, hidden = m.hidden_size;
  norm(index > 0 ? weights_.layers[index - 1].post_ffn_norm : nullptr, w.attention_norm);
  multiply(query + 2 * kv, hidden, normed_.as<void>(), w.projection, projected_.as<void>(), false,
           rows_->rows());
  rotate_args r{};
  r.kind = with_.weights;
  r.rows = rows_->rows();
  r.heads = m.head_count;
  r.projected = projected_.as<void>();
  r.bias = w.projection_bias;
  r.query_norm = w.query_norm;
  r.key_norm = w.key_norm;
  r.cosine = layer.is_rotated ? weights_.rotations[layer.rotation].cosine : nullptr;
  r.sine = layer.is_rotated ? weights_.rotations[layer.rotation].sine : nullptr;
  r.dimensions = m.rotated_dimensions;
  r.rotates_pairs = m.rotates == plugin::rotation::pairs;
  r.epsilon = m.rms_epsilon;
  r.query_scale = m.attention_scale;
  r.positions = rows_->positions();
  r.slot_mapping = rows_->slot_mapping();
  r.kv = kv_of(index);
  on_->kernels().rotate(r, on_->stream());
  attend_args a{};
  a.kind = with_.weights;
  a.heads = m.head_count;
  a.row_elements = static_cast<std::uint32_t>(query + 2 * kv);
  a.projected = projected_.as<void>();
  a.out = attended_.as<void>();
  a.window = layer.window;
  a.soft_cap = m.attention_soft_cap;
  a.kv = r.kv;
  attention_->attend(a, *rows_);
  multiply(hidden, query, attended_.as<void>(), w.attention_out, added_.as<void>(), true,
           rows_->rows());
  sum_ranks();
  has_added_ = true;
  norm(w.post_attention_norm, w.ffn_norm);
  if (w.router)
    experts_->run(index, w, rows_->rows(), normed_.as<void>(), added_.as<float>(), sums_.get());
  else
    run_ffn(w);
  sum_ranks();
  has_added_ = true;
}

void stage::run_ffn(const layer_weights& layer) {
  const std::uint64_t hidden = model_.hidden_size, width = ffn_size();
  const auto& ffn = layer.ffn.front();
  multiply(2 * width, hidden, normed_.as<void>(), ffn.gate_up, gate_up_.as<void>(), false,
           rows_->rows());
  on_->kernels().gate({.kind = with_.weights,
                       .rows = rows_->rows(),
                       .width = ffn_size(),
                       .gate_up = gate_up_.as<void>(),
                       .out = gated_.as<void>(),
                       .act = model_.act},
                      on_->stream());
  multiply(hidden, width, gated_.as<void>(), ffn.down, added_.as<void>(), true, rows_->rows());
}

// Replaces `added_` by the sum over the ranks.
void stage::sum_ranks() {
  if (with_.width == 1)
    return;
  const std::size_t count = std::size_t{rows_->rows()} * model_.hidden_size;
  if (sums_)
    return sums_->sum(added_.as<float>(), count);
  float* values = host_rows_.as<float>();
  on_->download(values, added_.as<void>(), count * sizeof(float));
  plugin::failure why;
  if (const auto s = shard_.all_reduce(shard_.context, values, count, &why);
      s != plugin::status::ok)
    throw refused(s, why.message);
  on_->upload(added_.as<void>(), values, count * sizeof(float));
}

// Computes the logits of the rows that draw, on the device.
void stage::make_logits() {
  const std::uint32_t draws = rows_->draws();
  const std::size_t own = model_.logit_count;
  norm_args a{};
  a.kind = with_.weights;
  a.rows = draws;
  a.hidden = model_.hidden_size;
  a.picked = rows_->picked();
  a.stream = stream_.as<float>();
  a.gain = weights_.output_norm;
  a.epsilon = model_.rms_epsilon;
  a.out = normed_.as<void>();
  on_->kernels().norm(a, on_->stream());
  multiply(own, model_.hidden_size, normed_.as<void>(), weights_.head, draws_->logits(), true,
           draws);
  if (model_.final_soft_cap > 0 || model_.logit_scale != 1)
    on_->kernels().cap({draws * own, draws_->logits(), model_.final_soft_cap, model_.logit_scale},
                       on_->stream());
}

} // namespace baton::gpu
