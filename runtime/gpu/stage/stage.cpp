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
  if (m.head_norms == plugin::head_norm::whole_rows && with.width > 1)
    refuse("norms of whole rows of queries on several ranks");
  if (m.has_parallel_ffn && m.expert_count > 0)
    refuse("experts beside attention");
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
                    m.hidden_size * std::max({query + 2 * kv, 2 * std::uint64_t{m.ffn_size},
                                              2 * std::uint64_t{m.expert_ffn_size},
                                              2 * std::uint64_t{m.shared_ffn_size}}));
  stream_ = on_->take(rows * m.hidden_size * sizeof(float));
  added_ = on_->take(rows * m.hidden_size * sizeof(float));
  normed_ = on_->take(rows * m.hidden_size * own);
  projected_ = on_->take(rows * (query + 2 * kv) * own);
  attended_ = on_->take(rows * query * own);
  const bool has_dense = std::any_of(layers_.begin(), layers_.end(),
                                     [](const auto& layer) { return !layer.is_mixture; });
  const std::uint64_t widest = std::max(has_dense ? m.ffn_size : 0, m.shared_ffn_size);
  gate_up_ = on_->take(rows * 2 * widest * own);
  gated_ = on_->take(rows * widest * own);
  if (m.shared_ffn_size > 0) {
    shared_out_ = on_->take(rows * m.hidden_size * sizeof(float));
    shared_scores_ = on_->take(rows * sizeof(float));
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

} // namespace baton::gpu
