#include "runtime/plugin/plugin_engine.hpp"

#include "runtime/engine/constraint_masks.hpp"
#include "runtime/engine/pooling.hpp"
#include "runtime/engine/prompt_scores.hpp"
#include "runtime/engine/sampler.hpp"
#include "runtime/plugin/batch_writer.hpp"
#include "runtime/plugin/weight_feed.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace baton::plugin {
namespace {

// Far above what any device holds; larger values are typing errors.
constexpr std::uint32_t rows_limit = 1U << 16U;
constexpr std::uint32_t block_positions_limit = 1024;

result<void> check(const config& c) {
  if (c.rows_max == 0 || c.rows_max > rows_limit)
    return fail_param(errc::invalid_value, "rows_max", "rows_max must be 1 to {}, not {}",
                      rows_limit, c.rows_max);
  if (c.blocks == 0)
    return fail_param(errc::does_not_fit, "blocks", "a KV cache of no blocks");
  if (c.block_positions == 0 || c.block_positions > block_positions_limit)
    return fail_param(errc::invalid_value, "block_positions",
                      "block_positions must be 1 to {}, not {}", block_positions_limit,
                      c.block_positions);
  if (c.quantized == quantization::int4 && c.group != 32 && c.group != 128)
    return fail_param(errc::invalid_value, "group", "groups of int4 must be 32 or 128, not {}",
                      c.group);
  if (c.threads == 0)
    return fail_param(errc::invalid_value, "threads", "threads must be at least 1");
  return {};
}

// The slices of all ranks in order; without a group, the whole model.
result<std::vector<model::tensor_slice>> slices_of(const model::description& m, const config& c) {
  auto slices = c.slices;
  if (slices.empty()) {
    auto whole = model::split(m, 1);
    if (!whole)
      return whole.error();
    slices = *std::move(whole);
  }
  if (c.rank >= slices.size())
    return fail_param(errc::invalid_value, "slices", "rank {} of {} slices", c.rank, slices.size());
  const auto logits = std::accumulate(
      slices.begin(), slices.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& slice) { return sum + slice.vocabulary.count; });
  if (logits != m.vocab_size)
    return fail_param(errc::invalid_value, "slices", "'{}': the slices are not of this model",
                      m.name);
  return slices;
}

status failed(status s, const error& e, failure* why) {
  const auto count = std::min(e.message.size(), message_bytes_max - 1);
  std::memcpy(why->message, e.message.data(), count);
  why->message[count] = 0;
  return s;
}

} // namespace

struct plugin_engine::state {
  state(const library& from, weight_feed weights, std::vector<model::tensor_slice> all,
        const config& c)
      : lib(from), feed(std::move(weights)), slices(std::move(all)), settings(c), masks(c.masker) {
    for (const auto& slice : slices)
      logits_of_ranks.push_back(slice.vocabulary.count);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    if (handle != nullptr)
      lib.calls().destroy(handle);
  }

  library lib;
  weight_feed feed;
  std::vector<model::tensor_slice> slices; // [rank]
  std::vector<std::size_t> logits_of_ranks;
  std::shared_ptr<collective::collective> group; // null: the only rank, or not connected yet
  config settings;
  bool embeds = false, heads = false;
  engine_handle* handle = nullptr;
  std::optional<error> group_failure; // the group's error in this step
  baton::engine::capacity limits;
  facts library_facts;
  batch_writer now, begun; // the current batch, and the one begun last
  std::span<float> logits; // [draws, vocabulary] of the last run
  baton::engine::sampler_scratch scratch;
  baton::engine::constraint_masks masks;

  host callbacks();
  result<void> create();
  result<void> checked(status ended, const failure& why) const;
  batch_reader reader() const { return {embeds, heads, !settings.keeps_logits}; }
  std::span<float> logits_of(std::size_t row);
  result<std::vector<sample>> draw_all(const micro_batch& batch);
  result<void> score_all(const micro_batch& batch, std::vector<pooled>& to);
  std::vector<pooled> pool_all(const micro_batch& batch, const float* states) const;
  result<std::vector<sample>> take_tokens(const std::int32_t* tokens,
                                          const std::vector<baton::draw>& draws,
                                          std::string_view name) const;
};

host plugin_engine::state::callbacks() {
  host h;
  h.context = this;
  h.find = [](void* context, weight_name name, extent* out) {
    const auto found = static_cast<state*>(context)->feed.find(name);
    if (found)
      *out = *found;
    return found.has_value();
  };
  h.read = [](void* context, weight_name name, std::uint64_t first, std::uint64_t count, element as,
              void* out, failure* why) {
    const auto ok = static_cast<state*>(context)->feed.read(name, first, count, as,
                                                            static_cast<std::byte*>(out));
    return ok ? status::ok : failed(status::io_failed, ok.error(), why);
  };
  h.log_line = [](void* context, const char* text) {
    if (const auto& log_line = static_cast<state*>(context)->settings.log_line)
      log_line(text);
  };
  if (slices.size() == 1)
    return h;
  h.all_reduce = [](void* context, float* values, std::size_t count, failure* why) {
    auto& s = *static_cast<state*>(context);
    auto ok = s.group->all_reduce({values, count});
    if (ok)
      return status::ok;
    s.group_failure = ok.error();
    return failed(status::group_failed, ok.error(), why);
  };
  h.look = [](void* context, failure* why) {
    auto& s = *static_cast<state*>(context);
    auto ok = s.group->look();
    if (ok)
      return status::ok;
    s.group_failure = ok.error();
    return failed(status::group_failed, ok.error(), why);
  };
  h.gather = [](void* context, const float* own, std::size_t count, float* all, failure* why) {
    auto& s = *static_cast<state*>(context);
    const auto& counts = s.logits_of_ranks;
    if (count != counts[s.group->rank()]) {
      const auto wrong =
          fail(errc::internal, "{} logits of a rank that has {}", count, counts[s.group->rank()]);
      return failed(status::internal, wrong, why);
    }
    const std::size_t total = all != nullptr ? s.limits.vocabulary_size : 0;
    auto ok = s.group->gather({own, count}, {all, total}, counts);
    if (ok)
      return status::ok;
    s.group_failure = ok.error();
    return failed(status::group_failed, ok.error(), why);
  };
  return h;
}

result<void> plugin_engine::state::create() {
  const auto model = feed.describe();
  plugin::settings with;
  with.device = settings.device.c_str();
  with.weights = settings.weights;
  with.kv = settings.kv;
  with.quantized = settings.quantized;
  with.group = settings.group;
  with.is_eager = settings.is_eager;
  with.threads = settings.threads;
  with.blocks = settings.blocks;
  with.block_positions = settings.block_positions;
  with.swap_blocks = settings.swap_blocks;
  with.rows_max = settings.rows_max;
  with.draws_usual = std::min(settings.draws_usual, settings.rows_max);
  with.max_model_len = limits.max_model_len;
  with.rank = settings.rank;
  with.width = static_cast<std::uint32_t>(slices.size());
  with.ranks_on_device = settings.ranks_on_device;
  const host shard = callbacks();
  failure why;
  const auto& calls = lib.calls();
  if (auto ok = outcome_of(calls.check(&with, &library_facts, &why), why, calls.name); !ok)
    return ok;
  return checked(calls.create(&model, &with, &shard, &handle, &why), why);
}

result<void> plugin_engine::state::checked(status ended, const failure& why) const {
  auto converted = outcome_of(ended, why, lib.calls().name);
  if (ended == status::device_lost && settings.on_lost)
    settings.on_lost(converted.error());
  return converted;
}

std::span<float> plugin_engine::state::logits_of(std::size_t row) {
  return logits.subspan(row * limits.vocabulary_size, limits.vocabulary_size);
}

result<void> plugin_engine::state::score_all(const micro_batch& batch, std::vector<pooled>& to) {
  std::size_t i = 0;
  for (const auto& r : baton::engine::scored_rows(batch)) {
    auto scored = baton::engine::score_token(logits_of(now.score_rows().at(i++)), r.token,
                                             batch.pools[r.pool].top, scratch);
    if (!scored)
      return scored.error();
    to[r.pool].scores.push_back(*std::move(scored));
  }
  return {};
}

result<std::vector<sample>> plugin_engine::state::draw_all(const micro_batch& batch) {
  if (auto ok = masks.find(batch); !ok)
    return ok.error();
  std::vector<sample> samples;
  for (std::size_t i = 0; i < batch.draws.size(); ++i) {
    auto drawn = baton::engine::draw_token(logits_of(now.draw_rows().at(i)), batch.draws[i],
                                           scratch, masks.of(i));
    if (!drawn)
      return drawn.error();
    samples.push_back(*std::move(drawn));
  }
  return samples;
}

// `states`: the rows of all pooled slices, concatenated. Entries of scored slices stay empty.
std::vector<pooled> plugin_engine::state::pool_all(const micro_batch& batch,
                                                   const float* states) const {
  std::vector<pooled> all;
  for (const pool& how : batch.pools) {
    if (how.how == pooling::scores) {
      all.emplace_back();
      continue;
    }
    const auto& of = batch.slices[how.slice];
    baton::engine::pooler sum(how, of, limits.hidden_size);
    for (std::uint32_t row = 0; row < of.rows; ++row, states += limits.hidden_size)
      sum.add({states, limits.hidden_size});
    all.push_back(std::move(sum).finish());
  }
  return all;
}

// Converts tokens that the library drew by itself.
result<std::vector<sample>> plugin_engine::state::take_tokens(const std::int32_t* tokens,
                                                              const std::vector<baton::draw>& draws,
                                                              std::string_view name) const {
  std::vector<sample> out;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (tokens[i] == -1)
      return fail(errc::internal, "no token can be drawn for index {}: logits are NaN or all -inf",
                  draws[i].token_index);
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= limits.vocabulary_size)
      return fail(errc::internal, "engine {} draws token {} of {}", name, tokens[i],
                  limits.vocabulary_size);
    out.push_back({tokens[i], 0, {}});
  }
  return out;
}

plugin_engine::plugin_engine(std::shared_ptr<state> s) : state_(std::move(s)) {}
plugin_engine::~plugin_engine() = default;

result<std::unique_ptr<plugin_engine>> plugin_engine::load(const library& from,
                                                           const model::model_file& file,
                                                           const model::description& model,
                                                           const model::layer_range& range,
                                                           const config& settings) {
  if (auto ok = check(settings); !ok)
    return ok.error();
  if (range.count == 0 || range.end() > model.layer_count)
    return fail(errc::invalid_value, "layers {} to {} of a model of {}", range.first, range.end(),
                model.layer_count);
  auto slices = slices_of(model, settings);
  if (!slices)
    return slices.error();
  const auto max_model_len = settings.max_model_len == 0
                                 ? model.context_length
                                 : std::min(settings.max_model_len, model.context_length);
  auto feed = weight_feed::open(file, model, range, (*slices)[settings.rank], max_model_len);
  if (!feed)
    return feed.error();
  auto s = std::make_shared<state>(from, *std::move(feed), *std::move(slices), settings);
  s->embeds = range.has_embedding;
  s->heads = range.has_head;
  auto& limits = s->limits;
  limits.blocks = settings.blocks;
  limits.block_positions = settings.block_positions;
  limits.swap_blocks = settings.swap_blocks;
  limits.rows_max = settings.rows_max;
  limits.hidden_size = model.hidden_size;
  limits.vocabulary_size = model.vocab_size;
  limits.max_model_len = max_model_len;
  limits.model_hash = file.fingerprint();
  if (auto ok = s->create(); !ok)
    return ok.error();
  limits.pools = !range.has_head || s->library_facts.gives_states;
  limits.scores = true; // computed from logits
  limits.device = fmt::format(
      "{} {}{}", from.calls().name, s->library_facts.device,
      s->slices.size() > 1 ? fmt::format(", rank {} of {}", settings.rank, s->slices.size()) : "");
  return std::unique_ptr<plugin_engine>(new plugin_engine(std::move(s)));
}

result<void> plugin_engine::connect(std::shared_ptr<collective::collective> group) {
  const state& s = *state_;
  if (!group || group->width() != s.slices.size() || group->rank() != s.settings.rank)
    return fail_param(errc::invalid_value, "slices", "rank {} of {} slices in a group of {}",
                      s.settings.rank, s.slices.size(), group ? group->width() : 1);
  state_->group = s.slices.size() > 1 ? std::move(group) : nullptr;
  return {};
}

const baton::engine::capacity& plugin_engine::limits() const noexcept {
  return state_->limits;
}

bool plugin_engine::is_exact() const noexcept {
  return state_->library_facts.is_exact;
}

result<baton::engine::step_output> plugin_engine::run(const micro_batch& batch,
                                                      std::span<const float> activations) {
  state& s = *state_;
  s.logits = {};
  s.group_failure.reset();
  if (auto ok = baton::engine::validate(batch, activations, s.limits, s.embeds); !ok)
    return ok.error();
  if (s.slices.size() > 1 && !s.group)
    return fail(errc::internal, "this rank is not connected to the other ranks");
  if (s.group) // fails if a rank runs another step
    if (auto ok = s.group->agree(batch.batch.value); !ok)
      return ok.error();
  const auto& what = s.now.write(batch, activations, s.reader());
  outcome found;
  failure why;
  const auto& calls = s.lib.calls();
  const auto ended = calls.run(s.handle, &what, &found, &why);
  // The group's own error is more precise than the library's, except if the device is lost.
  if (s.group_failure && ended != status::device_lost)
    return *s.group_failure;
  if (ended == status::group_failed && s.group) // the engine's own collective failed
    s.group->give_up(outcome_of(ended, why, calls.name).error());
  if (auto ok = s.checked(ended, why); !ok)
    return ok.error();
  baton::engine::step_output out;
  const std::size_t hidden = std::size_t{batch.rows()} * s.limits.hidden_size;
  if (!s.heads) {
    if (found.activations == nullptr)
      return fail(errc::internal, "engine {} returns no activations", calls.name);
    out.activations = {found.activations, hidden};
    if (found.may_be_kept && calls.give_back != nullptr)
      out.owner = {found.activations, [kept = state_](float* rows) {
                     kept->lib.calls().give_back(kept->handle, rows);
                   }};
    return out;
  }
  if (s.settings.rank != 0)
    return out;
  const bool pools = std::any_of(batch.pools.begin(), batch.pools.end(),
                                 [](const pool& p) { return p.how != pooling::scores; });
  if (pools && found.states == nullptr)
    return fail(errc::internal, "engine {} returns no rows to pool", calls.name);
  out.pooled = s.pool_all(batch, found.states);
  if (what.draws == 0)
    return out;
  if (found.tokens != nullptr && what.how.draws != nullptr) {
    auto samples = s.take_tokens(found.tokens, batch.draws, calls.name);
    if (!samples)
      return samples.error();
    out.samples = *std::move(samples);
    return out;
  }
  if (found.logits == nullptr)
    return fail(errc::internal, "engine {} returns no logits", calls.name);
  s.logits = {found.logits, std::size_t{what.draws} * s.limits.vocabulary_size};
  if (auto ok = s.score_all(batch, out.pooled); !ok)
    return ok.error();
  auto samples = s.draw_all(batch);
  if (!samples)
    return samples.error();
  out.samples = *std::move(samples);
  return out;
}

std::uint32_t plugin_engine::begun_max() const noexcept {
  const state& s = *state_;
  const auto& calls = s.lib.calls();
  return calls.begin != nullptr && calls.is_busy != nullptr && !s.group ? s.library_facts.begun_max
                                                                        : 0;
}

// Passes only batches that respect the limits to the library.
bool plugin_engine::begin(const micro_batch& batch, std::span<const float> activations) {
  state& s = *state_;
  const bool is_fed = !batch.feeds.empty();
  if (begun_max() == 0 || (is_fed && !s.begun.can_feed(batch, s.reader())) ||
      !baton::engine::validate(batch, activations, s.limits, s.embeds, is_fed))
    return false;
  if (s.lib.calls().begin(s.handle, &s.begun.write(batch, activations, s.reader())))
    return true;
  s.begun.forget(); // disables feeding from the batch before
  return false;
}

bool plugin_engine::is_busy() {
  return begun_max() > 0 && state_->lib.calls().is_busy(state_->handle);
}

std::span<const float> plugin_engine::logits(std::size_t index) const {
  const std::size_t width = state_->limits.vocabulary_size;
  const auto& rows = state_->now.draw_rows();
  ENSURE(index < rows.size() && (rows[index] + 1) * width <= state_->logits.size(),
         "logits of draw {}", index);
  return state_->logits.subspan(rows[index] * width, width);
}

} // namespace baton::plugin
