#include "cluster/roles/shard/shard_engine.hpp"

#include "cluster/plan/device_check.hpp"
#include "cluster/plan/model_identity.hpp"
#include "cluster/plan/plan_engines.hpp"
#include "runtime/grammar/masker.hpp"
#include "runtime/model/open/open_model.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

namespace baton::cluster {
namespace {

// A shard that samples needs the vocabulary's texts to constrain answers, from the first one on. It
// reads them from the file of its weights.
std::shared_ptr<grammar::masker> masker_of(const cluster_context& context) {
  const auto& path = context.config.model.path;
  const auto identity = context.record().model_identity;
  return std::make_shared<grammar::masker>([path, identity]() -> result<grammar::answer_texts> {
    const auto vocabulary = text::open_vocabulary(path);
    if (!vocabulary)
      return vocabulary.error();
    const auto file = model::open_model(path);
    if (!file)
      return file.error();
    if (auto ok = check_identity(**file, identity); !ok)
      return ok.error();
    const auto tokenizer = text::tokenizer::create(*vocabulary);
    if (!tokenizer)
      return tokenizer.error();
    return grammar::texts_of(*tokenizer);
  });
}

cpu::config settings_of(const cluster_context& context, const cluster_plan& all,
                        const shard_plan& plan, std::optional<int> kv_file) {
  cpu::config settings;
  settings.threads = plan.threads;
  settings.cpus.assign(plan.cores.begin(), plan.cores.end());
  settings.kv_blocks = all.blocks;
  settings.state_slots = std::max(all.state_slots, settings.state_slots);
  settings.kv_cache_dtype = context.config.model.kv_cache_dtype;
  settings.kv_file = kv_file;
  settings.swap_blocks = all.swap_blocks;
  settings.swap_directory = context.dir.path();
  settings.rows_max = context.config.model.max_num_batched_tokens;
  settings.max_model_len = all.max_model_len;
  settings.activation_bits = context.config.model.activation_bits;
  settings.slices = plan.slices;
  settings.rank = plan.rank;
  settings.masker = masker_of(context);
  return settings;
}

// Sends no result: the restarted process recomputes the step, and clients notice nothing.
[[noreturn]] void end_without_device(const error& why) {
  spdlog::critical("{}; the process ends", why.message);
  spdlog::shutdown();
  _exit(exit_device_lost);
}

// Each sequence draws once per step; sequences that speculate also draw behind each draft token.
std::uint32_t draws_usual(const model_config& m) {
  const auto guessing = m.speculative_disable_by_batch_size == 0
                            ? m.max_num_seqs
                            : std::min(m.speculative_disable_by_batch_size, m.max_num_seqs);
  return m.max_num_seqs + guessing * m.num_speculative_tokens;
}

// Loads the library's engine with its weights; the other ranks are not connected yet.
result<std::shared_ptr<plugin::plugin_engine>> load_foreign(const cluster_context& context,
                                                            const cluster_plan& all,
                                                            const shard_plan& plan,
                                                            const model::model_file& file) {
  const auto found = plugin::find_library(plan.on_device.engine);
  if (!found)
    return fail(found.error().code, "device {}: {} ({})", plan.device, found.error().message,
                fix_of(plan.on_device));
  const auto library = plugin::library::open(*found);
  if (!library)
    return library.error();
  const auto& m = context.config.model;
  plugin::config settings;
  settings.device = plan.on_device.at;
  settings.weights = weights_of(m, plan.on_device);
  // 16-bit KV has the weights' type, for kernels that need both alike.
  settings.kv = m.kv_cache_dtype == cpu::kv_format::f32     ? plugin::element::f32
                : settings.weights == plugin::element::bf16 ? plugin::element::bf16
                                                            : plugin::element::f16;
  settings.quantized = quantization_of(m);
  settings.group = m.quantization_group_size;
  settings.is_eager = m.enforce_eager;
  settings.threads = plan.threads;
  settings.blocks = all.blocks;
  settings.block_positions = all.block_positions;
  settings.swap_blocks = all.swap_blocks;
  settings.rows_max = m.max_num_batched_tokens;
  settings.draws_usual = draws_usual(m);
  settings.max_model_len = all.max_model_len;
  settings.slices = plan.slices;
  settings.rank = plan.rank;
  const auto stage = stage_of(all, plan);
  settings.ranks_on_device = static_cast<std::uint32_t>(
      std::count_if(stage.begin(), stage.end(), [&](const shard_plan& s) {
        return s.on == plan.on && s.device == plan.device;
      }));
  settings.masker = masker_of(context);
  settings.log_line = [](const std::string& line) { spdlog::info("{}", line); };
  settings.on_lost = end_without_device;
  auto loaded = plugin::plugin_engine::load(*library, file, context.model, plan.layers, settings);
  if (!loaded)
    return loaded.error();
  return std::shared_ptr<plugin::plugin_engine>(std::move(*loaded));
}

// Finds the KV that other shards of this machine hold for these incarnations, by the label of its
// memory. KV that is not found is only recomputed.
std::vector<cpu::kv_source> find_kv(const run_dir& dir,
                                    const std::vector<std::uint64_t>& incarnations) {
  std::vector<cpu::kv_source> found;
  for (const auto& record : dir.alive())
    for (const int fd : open_memory_of(record, kv_file_suffix)) {
      if (auto source = cpu::kv_source::open(fd);
          source && std::find(incarnations.begin(), incarnations.end(),
                              source->label().incarnation) != incarnations.end())
        found.push_back(*std::move(source));
      close(fd);
    }
  return found;
}

} // namespace

result<shard_engine> shard_engine::begin(const cluster_context& context, const cluster_plan& all,
                                         const shard_plan& plan, const model::model_file& file) {
  shard_engine made(context, all, plan);
  if (!plan.on_device.is_native()) {
    auto loaded = load_foreign(context, all, plan, file);
    if (!loaded)
      return loaded.error();
    made.foreign_ = *std::move(loaded);
    return made;
  }
  auto read = cpu::engine_cpu::read(file, context.model, plan.layers,
                                    settings_of(context, all, plan, std::nullopt));
  if (!read)
    return read.error();
  made.weights_ = *std::move(read);
  return made;
}

result<void> shard_engine::finish(const model::model_file& file, std::optional<int> kv_file,
                                  std::shared_ptr<collective::collective> ranks) {
  if (foreign_)
    return ranks ? foreign_->connect(std::move(ranks)) : result<void>();
  auto loaded = cpu::engine_cpu::load(file, context_->model, plan_->layers,
                                      settings_of(*context_, *all_, *plan_, kv_file), weights_,
                                      std::move(ranks));
  if (!loaded)
    return loaded.error();
  native_ = std::move(*loaded);
  return {};
}

std::shared_ptr<engine::engine> shard_engine::engine() const {
  if (foreign_)
    return foreign_;
  return native_;
}

std::function<result<void>(const kv_handover&)> shard_engine::take_over() const {
  if (foreign_)
    return nullptr;
  return [own = native_, dir = context_->dir](const kv_handover& takes) {
    return own->take_over(find_kv(dir, takes.kv_incarnations), takes.blocks, takes.states);
  };
}

} // namespace baton::cluster
