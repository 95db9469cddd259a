// The ffn of a mixture. Each row passes through the experts with its highest router scores. An
// expert's weights are read once for all of its rows, or not at all if it has none. A row sums its
// experts in the order of their indices, so the result does not depend on other rows.
//
// Members need no communication for the grouping: each computes it from the same choices.
#include "runtime/cpu/forward/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace baton::cpu {
namespace {

// The cost of a panel in rows of arithmetic: reading it costs as much as a few rows.
std::uint64_t panel_cost(std::uint64_t rows) {
  constexpr std::uint64_t reading = 4;
  return rows == 0 ? 0 : reading + rows;
}

// The number of panels that start before `end`; the first starts at `begin`, each costs `cost`.
std::uint64_t panels_before(std::uint64_t end, std::uint64_t begin, std::uint64_t cost,
                            std::uint64_t panels) {
  return end <= begin ? 0 : std::min((end - begin + cost - 1) / cost, panels);
}

} // namespace

void forward::run_experts(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const ffn_weights& any = layer.experts.front(); // all have the same types
  const share own = share_of(layer.router.panel_count(), member);
  multiply(member, layer.router, m.normed, rows_.size(), own,
           m.experts.scores.from_column(own.begin * panel_rows), /*adds=*/false);
  p_.team.barrier();
  choose(share_of(rows_.size(), member));
  p_.team.barrier();
  gather(member, any.gate.is_float() || any.up.is_float(),
         !any.gate.is_float() || !any.up.is_float());
  p_.team.barrier();
  gate_and_up_of_experts(member, layer);
  p_.team.barrier();
  add_experts_to_residual(member, layer);
}

void forward::choose(share rows) {
  const auto& model = p_.model;
  const std::size_t count = model.expert_count, used = model.expert_used_count;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    float* scores = p_.memory.experts.scores.row(r);
    const std::span<expert_choice> chosen(p_.memory.experts.choices + r * used, used);
    choose_experts({scores, count}, chosen);
    const float best = scores[chosen.front().expert];
    const std::size_t padded = (count + panel_rows - 1) / panel_rows * panel_rows;
    std::fill(scores + count, scores + padded, -INFINITY);
    float sum = p_.table.exp_sum(scores, padded, best);
    if (model.has_normalised_experts) {
      sum = 0;
      for (const auto& choice : chosen)
        sum += scores[choice.expert];
    }
    for (auto& choice : chosen)
      choice.weight = scores[choice.expert] / sum;
  }
}

// Makes the rows of an expert contiguous, as products require.
void forward::gather(unsigned member, bool needs_values, bool needs_records) {
  const step_memory& m = p_.memory;
  const auto& own = m.per_thread[member];
  const std::size_t used = p_.model.expert_used_count, count = rows_.size() * used;
  group_by_expert({m.experts.choices, count}, used, {own.first_slot, p_.model.expert_count + 2U},
                  {own.slots, count});
  const share slots = share_of(count, member);
  const input_rows& to = m.experts.gathered;
  for (std::size_t slot = slots.begin; slot < slots.end; ++slot) {
    const std::size_t from = own.slots[slot].row;
    if (needs_values)
      std::memcpy(to.values.row(slot), m.normed.values.row(from),
                  p_.model.hidden_size * sizeof(float));
    if (needs_records)
      std::memcpy(to.record_row(slot), m.normed.record_row(from), to.record_stride);
  }
}

// The panels of all used experts form one sequence, divided into parts of equal cost per member:
// experts are small and have different numbers of rows.
void forward::gate_and_up_of_experts(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const std::uint32_t* first = m.per_thread[member].first_slot;
  const std::uint64_t panels = layer.experts.front().gate.panel_count();
  std::uint64_t total = 0;
  for (std::size_t e = 0; e < layer.experts.size(); ++e)
    total += panels * panel_cost(first[e + 1] - first[e]);
  const share own{total * member / p_.team.size(), total * (member + 1) / p_.team.size()};
  std::uint64_t at = 0;
  for (std::size_t e = 0; e < layer.experts.size(); ++e) {
    const std::size_t rows = first[e + 1] - first[e];
    if (rows == 0)
      continue;
    const std::uint64_t cost = panel_cost(rows);
    const share part{panels_before(own.begin, at, cost, panels),
                     panels_before(own.end, at, cost, panels)};
    gate_and_up(member, layer.experts[e], m.experts.gathered.from_row(first[e]), rows, part,
                m.gated.from_row(first[e]));
    at += panels * cost;
  }
}

// hidden += weight * (down * gated). A member has the same outputs of every expert, so the order of
// a row's sum is fixed without a barrier. A group accumulates in `normed`, from zero.
void forward::add_experts_to_residual(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const float_rows& to = p_.group == nullptr ? m.hidden : m.normed.values;
  const auto& own = m.per_thread[member];
  const share panels = share_of(layer.experts.front().down.panel_count(), member);
  for (std::size_t r = 0; r < rows_.size() && p_.group != nullptr; ++r)
    std::memset(to.row(r) + panels.begin * panel_rows, 0,
                (panels.end - panels.begin) * panel_rows * sizeof(float));
  for (std::size_t e = 0; e < layer.experts.size(); ++e) {
    const std::size_t begin = own.first_slot[e], rows = own.first_slot[e + 1] - begin;
    if (rows == 0)
      continue;
    in_pieces(rows, panels, [&](share some_rows, share some) {
      const std::size_t first = begin + some_rows.begin;
      const std::size_t count = some_rows.end - some_rows.begin;
      multiply(member, layer.experts[e].down, m.gated.from_row(first), count, some, own.up,
               /*adds=*/false);
      for (std::size_t i = 0; i < count; ++i) {
        const expert_slot& slot = own.slots[first + i];
        p_.table.add_scaled(to.row(slot.row) + some.begin * panel_rows, own.up.row(i),
                            (some.end - some.begin) * panel_rows, slot.weight);
      }
    });
  }
  if (p_.group != nullptr)
    add_normed(member, /*gain=*/nullptr);
}

} // namespace baton::cpu
