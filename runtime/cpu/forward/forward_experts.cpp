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
  if (layer.router_gain != nullptr) {
    normalise(member, layer.router_gain, forms_for({&layer.router}));
    if (failure_)
      return;
  }
  project(member, layer.router, m.experts.scores);
  if (layer.shared_gate.rows > 0)
    project(member, layer.shared_gate, m.experts.shared_score);
  p_.team.barrier();
  if (layer.experts_norm != nullptr) {
    normalise(member, layer.experts_norm, forms_for({&any.gate, &any.up}));
    if (failure_)
      return;
  }
  choose(member, layer);
  weigh_shared(member, layer);
  p_.team.barrier();
  gather(member, any.gate.is_float() || any.up.is_float(),
         !any.gate.is_float() || !any.up.is_float());
  p_.team.barrier();
  gate_and_up_of_experts(member, layer);
  gate_and_up_of_shared(member, layer);
  p_.team.barrier();
  add_experts_to_residual(member, layer);
}

// The ffn's output, normalised, is kept for the sum with the experts.
void forward::run_ffn_beside(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const ffn_weights& ffn = layer.ffn;
  normalise(member, layer.ffn_norm, forms_for({&ffn.gate, &ffn.up}));
  if (failure_)
    return;
  gate_and_up_of_layer(member, ffn);
  p_.team.barrier();
  project(member, ffn.down, m.gated, m.normed.values);
  if (p_.group == nullptr)
    p_.team.barrier();
  else
    synchronise(member, [&] { return reduce_over_ranks(); });
  const share own = share_of_finished(member);
  for (std::size_t r = own.begin; r < own.end && !failure_; ++r)
    norm(m.normed.values.row(r), layer.post_dense_norm, m.beside.row(r));
}

// A bias of the choice is added to the weights, other choices compare the scores. The best groups
// are found in a copy, since the weights of a softmax need all scores.
void forward::choose(unsigned member, const layer_weights& layer) {
  const auto& model = p_.model;
  const std::size_t count = model.expert_count, used = model.expert_used_count;
  const share rows = share_of(rows_.size(), member);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    float* scores = p_.memory.experts.scores.row(r);
    const std::span<expert_choice> chosen(p_.memory.experts.choices + r * used, used);
    if (layer.router_gain != nullptr) // the input's factor, 1 / sqrt(hidden)
      p_.table.scale(scores, (count + panel_rows - 1) / panel_rows * panel_rows,
                     1.0F / std::sqrt(static_cast<float>(model.hidden_size)));
    for (std::size_t e = 0; e < count && layer.router_bias != nullptr; ++e)
      scores[e] += layer.router_bias[e];
    float* ranked = p_.memory.per_thread[member].ranked;
    const bool has_groups = model.expert_group_count > 1;
    const group_choice groups{model.expert_group_count, model.expert_group_used_count,
                              model.router == model::router_kind::sigmoid};
    if (layer.choice_bias == nullptr) {
      if (has_groups) {
        std::copy_n(scores, count, ranked);
        keep_best_groups({ranked, count}, groups);
      }
      choose_experts({has_groups ? ranked : scores, count}, chosen);
      weigh(scores, chosen);
      for (std::size_t i = 0; i < used && layer.expert_scales != nullptr; ++i)
        chosen[i].weight *= layer.expert_scales[chosen[i].expert];
      continue;
    }
    if (model.router == model::router_kind::sigmoid)
      sigmoids(scores, count);
    else
      softmax(scores, count);
    for (std::size_t e = 0; e < count; ++e)
      ranked[e] = scores[e] + layer.choice_bias[e];
    if (has_groups)
      keep_best_groups({ranked, count}, groups);
    choose_experts({ranked, count}, chosen);
    weigh_values(scores, chosen);
  }
}

void forward::weigh_shared(unsigned member, const layer_weights& layer) const {
  const share rows = share_of(rows_.size(), member);
  for (std::size_t r = rows.begin; r < rows.end && layer.shared_gate.rows > 0; ++r)
    sigmoids(p_.memory.experts.shared_score.row(r), 1);
}

// Replaces scores by 1 / (1 + exp(-score)). They are padded to whole panels.
void forward::sigmoids(float* scores, std::size_t count) const {
  const std::size_t padded = (count + panel_rows - 1) / panel_rows * panel_rows;
  p_.table.scale(scores, padded, -1.0F);
  p_.table.exp_sum(scores, padded, 0.0F);
  for (std::size_t e = 0; e < count; ++e)
    scores[e] = 1.0F / (1.0F + scores[e]);
}

// Replaces scores by their softmax. They are padded to whole panels.
void forward::softmax(float* scores, std::size_t count) const {
  const float sum = exponentials(scores, count, *std::max_element(scores, scores + count));
  p_.table.scale(scores, (count + panel_rows - 1) / panel_rows * panel_rows, 1.0F / sum);
}

// Replaces scores by exp(score - best) and returns their sum. They are padded to whole panels.
float forward::exponentials(float* scores, std::size_t count, float best) const {
  const std::size_t padded = (count + panel_rows - 1) / panel_rows * panel_rows;
  std::fill(scores + count, scores + padded, -INFINITY);
  return p_.table.exp_sum(scores, padded, best);
}

void forward::weigh_values(const float* values, std::span<expert_choice> chosen) const {
  float sum = 0;
  for (const auto& choice : chosen)
    sum += values[choice.expert];
  // As in modeling_deepseek_v3.py of transformers, a sum of 0 does not divide by 0.
  const float divisor = p_.model.has_normalised_experts ? sum + 1e-20F : 1.0F;
  for (auto& choice : chosen)
    choice.weight = values[choice.expert] / divisor * p_.model.expert_scale;
}

void forward::weigh(float* scores, std::span<expert_choice> chosen) const {
  const auto& model = p_.model;
  const std::size_t count = model.expert_count;
  if (model.router == model::router_kind::sigmoid) {
    sigmoids(scores, count);
    return weigh_values(scores, chosen);
  }
  float sum = exponentials(scores, count, scores[chosen.front().expert]);
  if (model.has_normalised_experts) {
    sum = 0;
    for (const auto& choice : chosen)
      sum += scores[choice.expert];
  }
  for (auto& choice : chosen) {
    choice.weight = scores[choice.expert] / sum;
    if (model.expert_scale != 1.0F)
      choice.weight *= model.expert_scale;
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
                m.experts.gated.from_row(first[e]));
    at += panels * cost;
  }
}

void forward::gate_and_up_of_shared(unsigned member, const layer_weights& layer) {
  const ffn_weights& shared = layer.shared;
  if (shared.gate.rows > 0)
    gate_and_up(member, shared, p_.memory.normed, rows_.size(),
                share_of(shared.gate.panel_count(), member), p_.memory.experts.shared);
}

// hidden += weight * (down * gated). A member has the same outputs of every expert, so the order of
// a row's sum is fixed without a barrier. A sum that is changed before it is added accumulates in
// `normed`, from zero.
void forward::add_experts_to_residual(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const bool is_beside = layer.router_gain != nullptr;
  const added_change change{nullptr, is_beside ? layer.post_experts_norm : layer.post_ffn_norm,
                            is_beside ? layer.post_ffn_norm : nullptr};
  const bool is_aside = adds_aside(change);
  const float_rows& to = is_aside ? m.normed.values : m.hidden;
  const auto& own = m.per_thread[member];
  const share panels = share_of(layer.experts.front().down.panel_count(), member);
  for (std::size_t r = 0; r < rows_.size() && is_aside; ++r)
    std::memset(to.row(r) + panels.begin * panel_rows, 0,
                (panels.end - panels.begin) * panel_rows * sizeof(float));
  for (std::size_t e = 0; e < layer.experts.size(); ++e) {
    const std::size_t begin = own.first_slot[e], rows = own.first_slot[e + 1] - begin;
    const ffn_weights& expert = layer.experts[e];
    if (rows == 0)
      continue;
    in_pieces(rows, panels, [&](share some_rows, share some) {
      const std::size_t first = begin + some_rows.begin;
      const std::size_t count = some_rows.end - some_rows.begin;
      const std::size_t column = some.begin * panel_rows, width = some.end * panel_rows - column;
      multiply(member, expert.down, m.experts.gated.from_row(first), count, some, own.up,
               /*adds=*/false);
      for (std::size_t i = 0; i < count; ++i) {
        const expert_slot& slot = own.slots[first + i];
        if (expert.down_bias != nullptr)
          p_.table.add(own.up.row(i), expert.down_bias + column, width);
        p_.table.add_scaled(to.row(slot.row) + column, own.up.row(i), width, slot.weight);
      }
    });
  }
  add_shared(member, layer, to);
  if (is_aside)
    add_changed(member, change);
}

// The shared experts come after the others.
void forward::add_shared(unsigned member, const layer_weights& layer, const float_rows& to) {
  const step_memory& m = p_.memory;
  const packed_matrix& down = layer.shared.down;
  const auto& own = m.per_thread[member];
  if (down.rows == 0)
    return;
  in_pieces(rows_.size(), share_of(down.panel_count(), member), [&](share rows, share some) {
    const std::size_t column = some.begin * panel_rows, width = some.end * panel_rows - column;
    multiply(member, down, m.experts.shared.from_row(rows.begin), rows.end - rows.begin, some,
             own.up, /*adds=*/false);
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      float* sum = to.row(r) + column;
      if (layer.shared_gate.rows == 0)
        p_.table.add(sum, own.up.row(r - rows.begin), width);
      else
        p_.table.add_scaled(sum, own.up.row(r - rows.begin), width, *m.experts.shared_score.row(r));
    }
  });
}

} // namespace baton::cpu
