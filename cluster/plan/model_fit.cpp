#include "cluster/plan/model_fit.hpp"

#include "cluster/files/shown_bytes.hpp"

#include <algorithm>
#include <limits>

namespace baton::cluster {
namespace {

constexpr std::uint64_t kv_cache_bytes_min = 1ull << 20; // the least that nodes.toml takes
constexpr std::uint64_t slots_usual = 24; // recurrent states of eight sequences at once

struct model_needs {
  std::uint64_t weight_bytes = 0; // in memory, with the processes
  std::uint64_t block_bytes = 0;  // of a KV block in all layers
  std::uint64_t slot_bytes = 0;   // of a recurrent state in all layers
  std::uint64_t slots = 0;        // that the settings want
  std::uint32_t block_positions = 0;
};

// The needs of the plan that a machine without limits would get.
result<model_needs> needs_of(cluster_config config, const model::description& model,
                             machine_facts machine) {
  machine.memory_available_bytes = std::numeric_limits<std::uint64_t>::max() / 4;
  config.model.max_model_len = std::min(config.model.max_model_len, model.context_length);
  config.model.kv_cache_bytes = 64ull << 40;
  const auto plan = make_plan(config, model, {{root_machine, std::move(machine)}});
  if (!plan)
    return plan.error();
  model_needs needs;
  std::uint64_t kv_bytes = 0;
  for (const auto& s : plan->shards) {
    needs.weight_bytes += bytes_without_kv(s);
    kv_bytes += s.kv_bytes;
  }
  needs.slot_bytes = model.state_bytes(0, model.layer_count);
  needs.slots = plan->state_slots;
  needs.block_bytes = (kv_bytes - needs.slots * needs.slot_bytes) / plan->blocks;
  needs.block_positions = plan->block_positions;
  return needs;
}

std::uint64_t blocks_for(std::uint64_t positions, const model_needs& needs) noexcept {
  return (positions + needs.block_positions - 1) / needs.block_positions;
}

error too_small(const model::description& model, const model_needs& needs, std::uint64_t available,
                std::uint64_t positions, std::uint32_t least, bool is_given) {
  constexpr std::string_view advice =
      "close other programs, or serve a smaller model or quantization";
  if (needs.weight_bytes >= available)
    return fail(errc::does_not_fit,
                "{} does not fit: its weights take {} of memory, and {} are available: {}",
                model.name, shown_bytes(needs.weight_bytes), shown_bytes(available), advice);
  return fail(errc::does_not_fit,
              "{} does not fit: its weights take {} of the {} of memory available, and half of the "
              "rest holds a context of {} tokens, fewer than {} of {}: {}{}",
              model.name, shown_bytes(needs.weight_bytes), shown_bytes(available), positions,
              is_given ? "max_model_len" : "the least", least,
              is_given ? "give a smaller max_model_len, " : "", advice);
}

} // namespace

std::uint64_t file_bytes_that_fit(std::uint64_t memory_available) noexcept {
  const auto room =
      static_cast<std::uint64_t>(static_cast<double>(memory_available) * (1 - kv_share_of_choice));
  if (room <= process_bytes)
    return 0;
  return static_cast<std::uint64_t>(static_cast<double>(room - process_bytes) / weight_overhead);
}

result<model_fit> fit_model(const cluster_config& config, const model::description& model,
                            const machine_facts& machine) {
  const auto needs = needs_of(config, model, machine);
  if (!needs)
    return needs.error();
  const auto available = machine.memory_available_bytes;
  const auto left = available - std::min(available, needs->weight_bytes);
  const auto room = static_cast<std::uint64_t>(static_cast<double>(left) * auto_kv_memory_share);
  const auto state_bytes =
      std::min(std::min(needs->slots, slots_usual) * needs->slot_bytes, room / 2);
  const auto blocks = (room - state_bytes) / needs->block_bytes;
  const auto positions = blocks * needs->block_positions;
  const auto given = config.model.max_model_len;
  const auto least = given != 0 ? given : std::min(context_min, model.context_length);
  if (positions < least || room < kv_cache_bytes_min)
    return too_small(model, *needs, available, positions, least, given != 0);
  model_fit fit;
  fit.trained_len = model.context_length;
  fit.max_model_len = static_cast<std::uint32_t>(
      given != 0 ? given : std::min<std::uint64_t>(model.context_length, positions));
  const auto one = blocks_for(fit.max_model_len, *needs) * needs->block_bytes;
  const auto usual = model_config().kv_cache_bytes.value_or(0);
  // States get at most half of it.
  const auto with_states = std::max(one + state_bytes, 2 * state_bytes);
  fit.kv_cache_bytes = std::min(std::max({with_states, usual, kv_cache_bytes_min}), room);
  fit.weight_bytes = needs->weight_bytes;
  fit.memory_available = available;
  return fit;
}

std::string text_of(const model_fit& fit) {
  auto text =
      fmt::format("memory: {} for weights and {} for the KV cache, of {} available; context "
                  "of {} tokens",
                  shown_bytes(fit.weight_bytes), shown_bytes(fit.kv_cache_bytes),
                  shown_bytes(fit.memory_available), fit.max_model_len);
  if (fit.max_model_len < fit.trained_len)
    text += fmt::format(", of the model's {}", fit.trained_len);
  return text;
}

} // namespace baton::cluster
