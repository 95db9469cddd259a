// Assembles the CPU engine: checks the settings, loads, runs steps, samples.
#include "runtime/cpu/forward/engine_cpu.hpp"

#include "runtime/cpu/forward/engine_checks.hpp"
#include "runtime/cpu/forward/forward.hpp"
#include "runtime/cpu/memory/swap_file.hpp"
#include "runtime/cpu/panels/panel_format.hpp"
#include "runtime/engine/constraint_masks.hpp"
#include "runtime/engine/pooling.hpp"
#include "runtime/engine/prompt_scores.hpp"
#include "runtime/engine/sampler.hpp"
#include "runtime/model/rope.hpp"

#include <algorithm>
#include <thread>

namespace baton::cpu {
namespace {

// Above any memory; a stage without attention has blocks of no bytes.
constexpr std::uint32_t blocks_limit = 1U << 30U;

// Distinguishes splits: a group with another split computes KV with other bits.
std::uint64_t mark_of(const std::vector<model::tensor_slice>& slices) {
  std::uint64_t mark = 0;
  if (slices.size() == 1)
    return mark;
  const auto mix = [&](std::uint64_t part) { mark = (mark ^ part) * 0x100000001B3U; };
  for (const auto& slice : slices) {
    mix(slice.heads.count);
    mix(slice.ffn.count);
  }
  return mark;
}

kv_shape shape_of(const model::description& own, const model::layer_range& range, const config& c) {
  const auto heads = own.largest_heads();
  kv_shape shape{.layers = own.kv_layers(range.first, range.end()),
                 .kv_heads = heads.kv_count,
                 .head_size = heads.size,
                 .format = c.kv_cache_dtype};
  if (own.recurrence) {
    shape.state_layers = own.recurrent_layers(range.first, range.end());
    shape.state_layer_bytes = own.recurrence->state_bytes();
    shape.state_slots = c.state_slots;
  }
  return shape;
}

std::vector<model::head_map> heads_of_layers(const model::description& whole,
                                             const model::tensor_slice& slice) {
  std::vector<model::head_map> heads;
  for (std::uint32_t layer = 0; layer < whole.layer_count; ++layer)
    heads.emplace_back(whole, slice, layer);
  return heads;
}

} // namespace

struct engine_cpu::state {
  state(const model::description& m, const model::layer_range& r, const config& c,
        std::vector<model::tensor_slice> all)
      : model(m), slices(std::move(all)), rank(c.rank), own(model::sliced(m, slices[rank])),
        range(r), which(c.forced_isa.value_or(detect_isa())),
        width(c.activation_bits == 8 ? activation_width::bits8 : activation_width::bits16),
        team(c.threads, c.cpus), scratch(c.threads), masks(c.masker) {
    for (const auto& slice : slices)
      logits_of_ranks.push_back(slice.vocabulary.count);
  }

  model::description model;
  std::vector<model::tensor_slice> slices; // [rank]
  std::uint32_t rank = 0;
  model::description own; // the model as this rank computes it
  std::vector<std::size_t> logits_of_ranks;
  std::shared_ptr<collective::collective> group; // null: this is the only rank
  model::layer_range range;
  isa which;
  activation_width width;
  thread_team team;
  shared_weights weights;
  std::optional<rope_tables> ropes;
  kv_memory kv;
  kv_part holds; // which part of the model this KV belongs to
  swap_file swap;
  step_memory memory;
  std::optional<forward> pass;
  std::vector<baton::engine::sampler_scratch> scratch; // [thread]
  baton::engine::constraint_masks masks;
  std::vector<std::optional<result<sample>>> drawn; // [draw]
  std::vector<block_index> first_used;              // blocks first used by this step
  baton::engine::capacity limits;

  result<void> take_kv(const model::model_file& file, const config& c) {
    const kv_shape shape = shape_of(own, range, c);
    const std::uint64_t fitting =
        c.kv_blocks != 0 ? c.kv_blocks
                         : c.kv_memory_bytes / std::max<std::uint64_t>(shape.block_bytes(), 1);
    const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(fitting, blocks_limit));
    if (blocks == 0)
      return fail(errc::does_not_fit, "{} bytes of KV memory hold no block of {} bytes",
                  c.kv_memory_bytes, shape.block_bytes());
    holds = {.model = file.fingerprint() ^ mark_of(slices) ^ mark_of_ropes(),
             .first_layer = model.kv_layers(0, range.first),
             .first_kv_head = slices[rank].kv_heads.first,
             .first_state_layer = model.recurrent_layers(0, range.first)};
    auto taken = c.kv_file ? kv_memory::share(shape, blocks, *c.kv_file, holds)
                           : kv_memory::take(shape, blocks);
    if (!taken)
      return taken.error();
    kv = *std::move(taken);
    if (c.swap_blocks == 0 || shape.block_bytes() == 0)
      return {};
    auto file_of_blocks = swap_file::create(c.swap_directory, c.swap_blocks, shape.block_bytes());
    if (!file_of_blocks)
      return file_of_blocks.error();
    swap = *std::move(file_of_blocks);
    return {};
  }

  // Distinguishes keys whose rotation depends on the served length.
  std::uint64_t mark_of_ropes() const {
    const auto is_long = [&](const auto& rope) {
      return rope.scaling == model::rope_scaling_kind::longrope &&
             limits.max_model_len > rope.original_context_size;
    };
    constexpr std::uint64_t of_long = 0x9E3779B97F4A7C15U;
    return std::any_of(model.ropes.begin(), model.ropes.end(), is_long) ? of_long : 0;
  }

  void make_ropes() {
    std::vector<std::span<const float>> factors;
    for (const auto& rope : model.ropes)
      factors.push_back(
          weights->rope_factors_of(model::rope_factors_name(rope, limits.max_model_len)));
    ropes.emplace(model, factors);
  }

  void describe(const model::model_file& file, const config& c) {
    limits.blocks = kv.blocks();
    limits.block_positions = kv_block_positions;
    limits.swap_blocks = c.swap_blocks;
    limits.state_slots = model.recurrence ? c.state_slots : 0;
    limits.kv_incarnation = kv.incarnation();
    limits.pools = true;
    limits.scores = true;
    limits.rows_max = c.rows_max;
    limits.hidden_size = model.hidden_size;
    limits.vocabulary_size = model.vocab_size;
    limits.model_hash = file.fingerprint();
    limits.device =
        fmt::format("cpu {}, {} thread{}, {}-bit activations, {} KV{}", name_of(which), c.threads,
                    c.threads == 1 ? "" : "s", c.activation_bits, name_of(c.kv_cache_dtype),
                    group ? fmt::format(", rank {} of {}", rank, slices.size()) : std::string());
  }

  // Logits per row on this rank: its own, or at rank 0, which samples, those of all ranks.
  std::size_t logits_held() const {
    return !range.has_head ? 0 : rank == 0 ? model.vocab_size : logits_of_ranks[rank];
  }

  void prefault_blocks(const micro_batch& batch);
  result<void> make_copies(const std::vector<block_copy>& copies);
  result<std::vector<sample>> draw_all(const micro_batch& batch);
  std::vector<pooled> pool_all(const micro_batch& batch);
  result<void> score_all(const micro_batch& batch, std::vector<pooled>& all);
};

engine_cpu::engine_cpu(std::unique_ptr<state> s) : state_(std::move(s)) {}
engine_cpu::~engine_cpu() = default;

result<shared_weights> engine_cpu::read(const model::model_file& file,
                                        const model::description& model,
                                        const model::layer_range& range, const config& settings) {
  if (auto ok = check_settings(settings); !ok)
    return ok.error();
  if (auto ok = check_model(model); !ok)
    return ok.error();
  if (range.count == 0 || range.end() > model.layer_count)
    return fail(errc::invalid_value, "layers {} to {} of a model of {}", range.first, range.end(),
                model.layer_count);
  if (const auto feature = model.uncut_feature();
      range.count < model.layer_count && !feature.empty())
    return fail(errc::does_not_fit, "'{}' has {}: its layers cannot be cut into stages", model.name,
                feature);
  const auto slices = slices_of(model, settings);
  if (!slices)
    return slices.error();
  std::optional<result<stage_weights>> weights;
  std::thread packing([&] { // pinned by the team, unlike the caller, which starts other threads
    thread_team team(settings.threads, settings.cpus);
    weights = load_weights(file, model, range, (*slices)[settings.rank], team);
  });
  packing.join();
  if (!*weights)
    return weights->error();
  return std::make_shared<const stage_weights>(**std::move(weights));
}

result<std::unique_ptr<engine_cpu>>
engine_cpu::load(const model::model_file& file, const model::description& model,
                 const model::layer_range& range, const config& settings, shared_weights weights,
                 std::shared_ptr<collective::collective> group) {
  if (auto ok = check_model(model); !ok)
    return ok.error();
  auto slices = slices_of(model, settings);
  if (!slices)
    return slices.error();
  const std::size_t ranks = group ? group->width() : 1;
  if (ranks != slices->size() || (group && group->rank() != settings.rank))
    return fail_param(errc::invalid_value, "slices", "rank {} of {} slices in a group of {}",
                      settings.rank, slices->size(), ranks);
  if (!weights) {
    auto made = read(file, model, range, settings);
    if (!made)
      return made.error();
    weights = *std::move(made);
  }
  auto s = std::make_unique<state>(model, range, settings, *std::move(slices));
  s->weights = std::move(weights);
  s->group = ranks > 1 ? std::move(group) : nullptr;
  s->limits.max_model_len = settings.max_model_len == 0
                                ? model.context_length
                                : std::min(settings.max_model_len, model.context_length);
  s->make_ropes();
  if (auto ok = s->take_kv(file, settings); !ok)
    return ok.error();
  auto memory =
      step_memory::take(s->own, s->logits_held(), settings.rows_max, settings.threads, s->width);
  if (!memory)
    return memory.error();
  s->memory = *std::move(memory);
  s->describe(file, settings);
  s->pass.emplace(forward_parts{.model = s->own,
                                .heads = heads_of_layers(model, s->slices[s->rank]),
                                .range = s->range,
                                .weights = *s->weights,
                                .table = kernels_for(s->which),
                                .width = s->width,
                                .kv = s->kv,
                                .ropes = *s->ropes,
                                .memory = s->memory,
                                .team = s->team,
                                .group = s->group.get(),
                                .logits_of_ranks = s->logits_of_ranks},
                  s->limits.max_model_len);
  return std::unique_ptr<engine_cpu>(new engine_cpu(std::move(s)));
}

result<std::uint64_t> engine_cpu::examine(const model::model_file& file,
                                          const model::description& model) {
  if (auto ok = check_model(model); !ok)
    return ok.error();
  const auto slices = model::split(model, 1);
  if (!slices)
    return slices.error();
  return packed_bytes(file, model, model::whole(model), slices->front());
}

const baton::engine::capacity& engine_cpu::limits() const noexcept {
  return state_->limits;
}

result<baton::engine::step_output> engine_cpu::run(const micro_batch& batch,
                                                   std::span<const float> activations) {
  state& s = *state_;
  if (auto ok = baton::engine::validate(batch, activations, s.limits, s.range.has_embedding); !ok)
    return ok.error();
  s.prefault_blocks(batch);
  if (auto ok = s.make_copies(batch.copies); !ok)
    return ok.error();
  if (s.group) // fails if another rank's copies failed
    if (auto ok = s.group->agree(batch.batch.value); !ok)
      return ok.error();
  if (auto ok = s.pass->run(batch, activations); !ok)
    return ok.error();
  baton::engine::step_output out;
  if (!s.range.has_head) {
    out.activations = {s.memory.hidden.data, std::size_t{batch.rows()} * s.model.hidden_size};
    return out;
  }
  if (s.rank != 0) // only rank 0 has all logits
    return out;
  auto samples = s.draw_all(batch);
  if (!samples)
    return samples.error();
  out.samples = *std::move(samples);
  out.pooled = s.pool_all(batch);
  if (auto ok = s.score_all(batch, out.pooled); !ok)
    return ok.error();
  return out;
}

// After a restart, the first steps find the KV of their sequences unmapped.
void engine_cpu::state::prefault_blocks(const micro_batch& batch) {
  first_used.clear();
  for (const auto& slice : batch.slices)
    kv.first_uses(slice.blocks, first_used);
  if (first_used.empty())
    return;
  team.run([&](unsigned member) {
    for (std::size_t i = member; i < first_used.size(); i += team.size())
      large_memory::prefault(kv.block(first_used[i]));
  });
}

// Every member copies its own part of each block, so copies stay in order without a barrier.
result<void> engine_cpu::state::make_copies(const std::vector<block_copy>& copies) {
  if (copies.empty())
    return {};
  std::vector<result<void>> made(team.size());
  team.run([&](unsigned member) {
    for (const block_copy& c : copies) {
      const auto block = kv.block(c.block);
      const std::size_t from = block.size() * member / team.size();
      const auto part = block.subspan(from, block.size() * (member + 1) / team.size() - from);
      made[member] =
          c.is_out ? swap.write(c.swap_block, from, part) : swap.read(c.swap_block, from, part);
      if (!made[member])
        return;
    }
  });
  const auto failed = std::find_if(made.begin(), made.end(), [](const auto& m) { return !m; });
  return failed == made.end() ? result<void>{} : *failed;
}

// Each member takes different blocks and slots.
result<void> engine_cpu::take_over(std::span<const kv_source> from,
                                   std::span<const block_index> blocks,
                                   std::span<const std::uint32_t> slots) {
  state& s = *state_;
  const auto runs = runs_of(s.holds, s.kv.shape(), from);
  const auto state_runs = state_runs_of(s.holds, s.kv.shape(), from);
  if (!runs || !state_runs)
    return runs ? state_runs.error() : runs.error();
  for (const auto& run : *runs)
    for (const auto block : blocks)
      if (block >= s.kv.blocks() || block >= run.from->label().blocks)
        return fail(errc::invalid_value, "block {} of {} here and {} there", block, s.kv.blocks(),
                    run.from->label().blocks);
  for (const auto& run : *state_runs)
    for (const auto slot : slots)
      if (slot == 0 || slot > s.kv.shape().state_slots || slot > run.from->label().state_slots)
        return fail(errc::invalid_value, "state slot {} of {} here and {} there", slot,
                    s.kv.shape().state_slots, run.from->label().state_slots);
  std::vector<result<void>> taken(s.team.size());
  s.team.run([&](unsigned member) {
    for (std::size_t i = member; i < blocks.size(); i += s.team.size())
      for (const auto& run : *runs) {
        const auto own = s.kv.layers(blocks[i], run.layer - s.holds.first_layer, run.count);
        if (taken[member] = run.from->read(blocks[i], run.layer, own); !taken[member])
          return;
      }
    for (std::size_t i = member; i < slots.size(); i += s.team.size())
      for (const auto& run : *state_runs) {
        const auto own = s.kv.states(slots[i], run.layer - s.holds.first_state_layer, run.count);
        if (taken[member] = run.from->read_state(slots[i], run.layer, own); !taken[member])
          return;
      }
  });
  for (const auto& one : taken)
    if (!one)
      return one;
  for (const auto* all : {&*runs, &*state_runs})
    for (const auto& run : *all)
      if (!run.from->is_same())
        return fail(errc::io_failed, "the KV memory of layers from {} on was reset",
                    run.from->first_layer());
  return {};
}

// Draws are independent: member i takes every size-th from i on.
result<std::vector<sample>> engine_cpu::state::draw_all(const micro_batch& batch) {
  if (auto ok = masks.find(batch); !ok)
    return ok.error();
  const auto& draws = batch.draws;
  drawn.assign(draws.size(), std::nullopt);
  team.run([&](unsigned member) {
    for (std::size_t i = member; i < draws.size(); i += team.size())
      drawn[i] = baton::engine::draw_token({memory.logits.row(i), model.vocab_size}, draws[i],
                                           scratch[member], masks.of(i));
  });
  std::vector<sample> samples;
  samples.reserve(draws.size());
  for (auto& each : drawn) {
    if (!*each)
      return each->error();
    samples.push_back(**std::move(each));
  }
  return samples;
}

// Pools are independent too. Rows of a pooled slice draw nothing and have no other reader after the
// last layer, so they are normalised in place. Every rank has them in full.
std::vector<pooled> engine_cpu::state::pool_all(const micro_batch& batch) {
  std::vector<pooled> all(batch.pools.size());
  if (all.empty())
    return all;
  std::vector<std::size_t> first_rows; // [slice]
  std::size_t rows = 0;
  for (const slice& each : batch.slices) {
    first_rows.push_back(rows);
    rows += each.rows;
  }
  const auto& table = kernels_for(which);
  team.run([&](unsigned member) {
    for (std::size_t i = member; i < all.size(); i += team.size()) {
      const pool& how = batch.pools[i];
      if (how.how == pooling::scores)
        continue;
      const slice& of = batch.slices[how.slice];
      baton::engine::pooler sum(how, of, model.hidden_size);
      for (std::size_t r = first_rows[how.slice]; r < first_rows[how.slice] + of.rows; ++r) {
        float* row = memory.hidden.row(r);
        table.rms_norm(row, weights->output_norm, model.hidden_size, model.rms_epsilon, row);
        sum.add({row, model.hidden_size});
      }
      all[i] = std::move(sum).finish();
    }
  });
  return all;
}

// Their logits follow those of the draws.
result<void> engine_cpu::state::score_all(const micro_batch& batch, std::vector<pooled>& all) {
  const auto rows = baton::engine::scored_rows(batch);
  std::vector<std::optional<result<sample>>> scored(rows.size());
  if (!rows.empty())
    team.run([&](unsigned member) {
      for (std::size_t i = member; i < rows.size(); i += team.size())
        scored[i] = baton::engine::score_token(
            {memory.logits.row(batch.draws.size() + i), model.vocab_size}, rows[i].token,
            batch.pools[rows[i].pool].top, scratch[member]);
    });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!*scored[i])
      return scored[i]->error();
    all[rows[i].pool].scores.push_back(**std::move(scored[i]));
  }
  return {};
}

std::span<const float> engine_cpu::logits(std::size_t index) const {
  ENSURE(state_->range.has_head && state_->rank == 0 && index < state_->drawn.size(),
         "logits of draw {} of {}", index, state_->drawn.size());
  return {state_->memory.logits.row(index), state_->model.vocab_size};
}

} // namespace baton::cpu
