// The kernels, each as one body that a team of lanes executes together. A team is a warp or a block
// on a device and one lane on the host. The tests use several threads, so that interactions of
// lanes are tested without a device. A lane may only write what other lanes read after the next sum
// or max, which synchronise all lanes.
//
// A body's result depends only on its own row (and head), not on other rows or the launch. Called
// by kernels_host.cpp and kernels_cuda.cu.
#pragma once

#include "runtime/gpu/bodies/load_run.hpp"
#include "runtime/gpu/device/kernels.hpp"

namespace baton::gpu {

inline constexpr float lowest = -3.402823466e38F;

// The host's team. sum_within() sums `width` adjacent lanes, sum_across() the lanes with the same
// index among their `width`; the number of lanes is a multiple of it.
struct one_lane {
  static constexpr std::uint32_t lane = 0, lanes = 1;
  float sum(float x) const { return x; }
  float max(float x) const { return x; }
  float sum_within(float x, std::uint32_t) const { return x; }
  float sum_across(float x, std::uint32_t) const { return x; }
  void sync() const {}
  void add(double* to, double x) const { *to += x; }
};

BATON_BODY float soft_capped(float x, float cap) {
  return cap > 0 ? cap * tanhf(x / cap) : x;
}

BATON_BODY float activated(float x, plugin::activation act) {
  if (act == plugin::activation::silu)
    return x / (1 + expf(-x));
  if (act == plugin::activation::clamped_silu) {
    const float g = x > 7 ? 7 : x;
    return g / (1 + expf(-1.702F * g));
  }
  // The tanh form of gelu (arXiv 1606.08415).
  return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
}

// The factor of an activated gate.
BATON_BODY float upper(float x, plugin::activation act) {
  if (act != plugin::activation::clamped_silu)
    return x;
  return (x > 7 ? 7 : x < -7 ? -7 : x) + 1;
}

template <class T, class Team>
BATON_BODY void embed_row(Team& team, const embed_args& a, std::uint32_t row) {
  const auto* from = static_cast<const T*>(a.table) + std::uint64_t(a.tokens[row]) * a.hidden;
  float* to = a.out + std::uint64_t{row} * a.hidden;
  for (std::uint32_t i = team.lane; i < a.hidden; i += team.lanes)
    to[i] = widen(from[i]) * a.scale;
}

// The scale of a row's norm; each lane has a part of the squares.
template <class Team>
BATON_BODY float scale_of_norm(Team& team, float squares, std::uint32_t width, float epsilon) {
  return 1 / sqrtf(team.sum(squares) / static_cast<float>(width) + epsilon);
}

// A lane's part of the squares of the deviations from `mean`.
template <std::uint32_t Run, class Team>
BATON_BODY float squares_around(Team& team, const float* row, std::uint32_t width, float mean) {
  float squares = 0;
  for (std::uint32_t i = team.lane * Run; i < width; i += team.lanes * Run) {
    run_of<float, Run> x;
    x.load(row + i);
    BATON_UNROLL
    for (std::uint32_t k = 0; k < Run; ++k)
      squares += (x.value[k] - mean) * (x.value[k] - mean);
  }
  return squares;
}

template <std::uint32_t Run, class Team>
BATON_BODY float inverse_norm(Team& team, const float* row, std::uint32_t width, float epsilon) {
  return scale_of_norm(team, squares_around<Run>(team, row, width, 0), width, epsilon);
}

// Requires: rows consist of whole runs.
template <class T, std::uint32_t Run, class Team>
BATON_BODY void norm_row_by_runs(Team& team, const norm_args& a, std::uint32_t row) {
  const std::uint64_t of = a.picked != nullptr ? a.picked[row] : row;
  float* stream = a.stream + of * a.hidden;
  const float* added = a.added != nullptr ? a.added + of * a.hidden : nullptr;
  const bool has_gain = added != nullptr && a.added_gain != nullptr;
  const float added_scale = has_gain ? inverse_norm<Run>(team, added, a.hidden, a.epsilon) : 1.0F;
  float squares = 0, total = 0;
  for (std::uint32_t i = team.lane * Run; i < a.hidden; i += team.lanes * Run) {
    run_of<float, Run> x, more, gain;
    x.load(stream + i);
    if (added != nullptr) {
      more.load(added + i);
      if (has_gain)
        gain.load(a.added_gain + i);
      if (a.added_bias != nullptr) {
        BATON_UNROLL
        for (std::uint32_t k = 0; k < Run; ++k)
          more.value[k] += a.added_bias[i + k];
      }
      BATON_UNROLL
      for (std::uint32_t k = 0; k < Run; ++k)
        if (a.added_scale == 1)
          x.value[k] += has_gain ? more.value[k] * added_scale * gain.value[k] : more.value[k];
        else
          x.value[k] += a.added_scale *
                        (has_gain ? more.value[k] * added_scale * gain.value[k] : more.value[k]);
      x.store(stream + i);
    }
    BATON_UNROLL
    for (std::uint32_t k = 0; k < Run; ++k) {
      squares += x.value[k] * x.value[k];
      total += x.value[k];
    }
  }
  if (a.gain == nullptr && !a.copies)
    return;
  const float mean = a.subtracts_mean ? team.sum(total) / static_cast<float>(a.hidden) : 0.0F;
  if (a.subtracts_mean)
    squares = squares_around<Run>(team, stream, a.hidden, mean);
  const float scale = a.gain != nullptr ? scale_of_norm(team, squares, a.hidden, a.epsilon) : 1.0F;
  auto* out = static_cast<T*>(a.out) + std::uint64_t{row} * a.hidden;
  for (std::uint32_t i = team.lane * Run; i < a.hidden; i += team.lanes * Run) {
    run_of<float, Run> x, gain; // each lane reads its own sums
    x.load(stream + i);
    run_of<T, Run> y;
    if (a.gain != nullptr)
      gain.load(a.gain + i);
    BATON_UNROLL
    for (std::uint32_t k = 0; k < Run; ++k)
      y.value[k] = a.gain == nullptr  ? x.value[k]
                   : a.subtracts_mean ? (x.value[k] - mean) * scale * gain.value[k]
                                      : x.value[k] * scale * gain.value[k];
    y.store(out + i);
  }
}

template <class T, class Team>
BATON_BODY void norm_row(Team& team, const norm_args& a, std::uint32_t row) {
  with_run<T>(a.hidden, [&](auto run) { norm_row_by_runs<T, decltype(run)::value>(team, a, row); });
}

// Reads the dimensions of a query or key head, with its bias and norm.
template <class T>
struct head_reader {
  const T* head;
  const float* bias; // null: none
  const float* gain; // null: none
  float scale;       // of the norm

  BATON_BODY float biased(std::uint32_t i) const {
    return widen(head[i]) + (bias != nullptr ? bias[i] : 0.0F);
  }
  BATON_BODY float operator()(std::uint32_t i) const {
    return gain != nullptr ? biased(i) * scale * gain[i] : biased(i);
  }
};

// `part` 0: the queries of the row, 1: its keys.
template <class T, class Team>
BATON_BODY void norm_part(Team& team, const row_norm_args& a, std::uint32_t row,
                          std::uint32_t part) {
  const std::uint32_t width = part == 0 ? a.query : a.key;
  const float* gain = part == 0 ? a.query_norm : a.key_norm;
  T* x = static_cast<T*>(a.projected) + std::uint64_t{row} * a.row_elements +
         (part == 0 ? 0 : a.query);
  float squares = 0;
  for (std::uint32_t i = team.lane; i < width; i += team.lanes)
    squares += widen(x[i]) * widen(x[i]);
  const float scale = scale_of_norm(team, squares, width, a.epsilon);
  for (std::uint32_t i = team.lane; i < width; i += team.lanes)
    narrow(widen(x[i]) * scale * gain[i], x[i]);
}

BATON_BODY float grown_scale(const rotate_args& a, std::uint32_t position) {
  if (a.growth_weight == 0)
    return a.query_scale;
  const float steps = floorf((static_cast<float>(position) + a.growth_offset) /
                             static_cast<float>(a.growth_length));
  return a.query_scale * (1 + a.growth_weight * log1pf(steps));
}

// `head` indexes queries, then keys, then values. One lane handles a pair, so a query may be
// written in place.
template <class T, class KV, class Team>
BATON_BODY void rotate_head(Team& team, const rotate_args& a, std::uint32_t row,
                            std::uint32_t head) {
  const std::uint32_t size = a.kv.head_size, kv_heads = a.kv.kv_heads;
  const std::uint64_t width = (std::uint64_t{a.heads} + 2 * kv_heads) * size;
  auto* own = static_cast<T*>(a.projected) + row * width + std::uint64_t{head} * size;
  head_reader<T> read{own, a.bias != nullptr ? a.bias + std::uint64_t{head} * size : nullptr,
                      nullptr, 1.0F};
  const bool is_query = head < a.heads, is_value = head >= a.heads + kv_heads;
  const std::uint32_t kv_head = is_query ? 0 : (head - a.heads) % kv_heads;
  const std::uint64_t block = a.slot_mapping[row] / a.kv.block_positions,
                      at = a.slot_mapping[row] % a.kv.block_positions;
  KV* page = static_cast<KV*>(is_value ? a.kv.values : a.kv.keys) +
             ((block * kv_heads + kv_head) * a.kv.block_positions + at) * size;
  const std::uint32_t rotated = is_value || a.cosine == nullptr ? 0 : a.dimensions;
  const std::uint32_t half = rotated / 2;
  const std::uint64_t first_angle = std::uint64_t{a.positions[row]} * half;
  const auto first_of = [&](std::uint32_t i) { return a.rotates_pairs ? 2 * i : i; };
  const auto second_of = [&](std::uint32_t i) { return a.rotates_pairs ? 2 * i + 1 : i + half; };
  const float* gain = is_value ? nullptr : is_query ? a.query_norm : a.key_norm;
  float scale_behind = 1;
  if (gain != nullptr && a.norms_behind) { // a rotation keeps squares, but for its magnitude
    float squares = 0;
    for (std::uint32_t i = team.lane; i < half; i += team.lanes) {
      const float x = read.biased(first_of(i)), y = read.biased(second_of(i));
      const float c = a.cosine[first_angle + i], s = a.sine[first_angle + i];
      squares += (x * x + y * y) * (c * c + s * s);
    }
    for (std::uint32_t i = rotated + team.lane; i < size; i += team.lanes)
      squares += read.biased(i) * read.biased(i);
    scale_behind = scale_of_norm(team, squares, size, a.epsilon);
  } else if (gain != nullptr) {
    float squares = 0;
    for (std::uint32_t i = team.lane; i < size; i += team.lanes)
      squares += read.biased(i) * read.biased(i);
    read.gain = gain;
    read.scale = scale_of_norm(team, squares, size, a.epsilon);
  }
  const float query_scale = is_query ? grown_scale(a, a.positions[row]) : 1.0F;
  const auto put = [&](std::uint32_t i, float x) {
    if (gain != nullptr && a.norms_behind)
      x *= scale_behind * gain[i];
    if (is_query)
      narrow(x * query_scale, own[i]);
    else
      narrow(x, page[i]);
  };
  for (std::uint32_t i = team.lane; i < half; i += team.lanes) {
    const std::uint32_t first = first_of(i), second = second_of(i);
    const float x = read(first), y = read(second);
    const float c = a.cosine[first_angle + i], s = a.sine[first_angle + i];
    put(first, x * c - y * s);
    put(second, y * c + x * s);
  }
  for (std::uint32_t i = rotated + team.lane; i < size; i += team.lanes)
    put(i, read(i));
}

// Requires: halves of a row consist of whole runs.
template <class T, std::uint32_t Run, class Team>
BATON_BODY void gate_row_by_runs(Team& team, const gate_args& a, std::uint32_t row) {
  const auto* gate = static_cast<const T*>(a.gate_up) + 2 * std::uint64_t{row} * a.width;
  auto* out = static_cast<T*>(a.out) + std::uint64_t{row} * a.width;
  const std::uint64_t expert = a.experts != nullptr ? a.experts[row] : 0;
  const float* bias = a.bias != nullptr ? a.bias + expert * 2 * a.width : nullptr;
  for (std::uint32_t i = team.lane * Run; i < a.width; i += team.lanes * Run) {
    run_of<T, Run> x, up;
    x.load(gate + i);
    up.load(gate + a.width + i);
    if (bias != nullptr) {
      BATON_UNROLL
      for (std::uint32_t k = 0; k < Run; ++k) {
        x.value[k] += bias[i + k];
        up.value[k] += bias[a.width + i + k];
      }
    }
    BATON_UNROLL
    for (std::uint32_t k = 0; k < Run; ++k)
      x.value[k] = activated(x.value[k], a.act) * upper(up.value[k], a.act);
    x.store(out + i);
  }
}

template <class T, class Team>
BATON_BODY void gate_row(Team& team, const gate_args& a, std::uint32_t row) {
  with_run<T>(a.width, [&](auto run) { gate_row_by_runs<T, decltype(run)::value>(team, a, row); });
}

BATON_BODY float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

// Uses one lane, because there are a few dozen experts: repeatedly selects the best remaining one.
BATON_BODY void choose_row(const choose_args& a, std::uint32_t row) {
  const float* scores = a.scores + std::uint64_t{row} * a.experts;
  std::uint32_t* chosen = a.chosen + std::uint64_t{row} * a.used;
  float* weights = a.weights + std::uint64_t{row} * a.used;
  const auto score = [&](std::uint32_t e) {
    return a.router_bias != nullptr ? scores[e] + a.router_bias[e] : scores[e];
  };
  const auto rank = [&](std::uint32_t e) {
    return a.choice_bias != nullptr ? sigmoid(score(e)) + a.choice_bias[e] : score(e);
  };
  const bool is_softmax = a.form == plugin::router_form::softmax;
  for (std::uint32_t k = 0; k < a.used; ++k) {
    std::uint32_t best = a.experts;
    for (std::uint32_t e = 0; e < a.experts; ++e) {
      bool is_taken = false;
      for (std::uint32_t before = 0; before < k; ++before)
        is_taken = is_taken || chosen[before] == e;
      if (!is_taken && (best == a.experts || rank(e) > rank(best)))
        best = e;
    }
    chosen[k] = best;
    weights[k] = is_softmax ? expf(score(best) - score(chosen[0])) : sigmoid(score(best));
  }
  float sum = 0;
  if (is_softmax)
    for (std::uint32_t e = 0; e < (a.normalises ? a.used : a.experts); ++e)
      sum += a.normalises ? weights[e] : expf(score(e) - score(chosen[0]));
  else if (a.normalises)
    for (std::uint32_t k = 0; k < a.used; ++k)
      sum += weights[k];
  for (std::uint32_t k = 0; k < a.used; ++k) {
    if (is_softmax)
      weights[k] /= sum;
    else if (a.normalises)
      weights[k] /= sum + 1e-20F;
    if (a.scale != 1)
      weights[k] *= a.scale;
  }
}

template <class Team>
BATON_BODY void join_row(Team& team, const join_args& a, std::uint32_t row) {
  const float weight = a.scores != nullptr ? sigmoid(a.scores[row]) : 1.0F;
  const float* from = a.from + std::uint64_t{row} * a.width;
  float* to = a.out + std::uint64_t{row} * a.width;
  for (std::uint32_t i = team.lane; i < a.width; i += team.lanes)
    to[i] += weight * from[i];
}

template <class T, class Team>
BATON_BODY void gather_row(Team& team, const gather_args& a, std::uint32_t row) {
  const auto* from = static_cast<const T*>(a.from) + std::uint64_t{a.picked[row]} * a.width;
  auto* to = static_cast<T*>(a.out) + std::uint64_t{row} * a.width;
  for (std::uint32_t i = team.lane; i < a.width; i += team.lanes)
    to[i] = from[i];
}

template <class Team>
BATON_BODY void scatter_row(Team& team, const scatter_args& a, std::uint32_t row) {
  const float* from = a.from + std::uint64_t{row} * a.width;
  float* to = a.out + std::uint64_t{a.picked[row]} * a.width;
  for (std::uint32_t i = team.lane; i < a.width; i += team.lanes)
    to[i] += a.weights[row] * (a.bias != nullptr ? from[i] + a.bias[i] : from[i]);
}

template <class Team>
BATON_BODY void spread_row(Team& team, const spread_args& a, std::uint32_t row) {
  const float* from = a.from + std::uint64_t{row} * a.own;
  float* to = a.out + std::uint64_t{row} * a.width;
  for (std::uint32_t i = team.lane; i < a.width; i += team.lanes)
    to[i] = i >= a.first && i - a.first < a.own ? from[i - a.first] : 0;
}

// Executed by one lane.
BATON_BODY void feed_token(const feed_args& a, std::uint32_t i) {
  const std::int32_t token = a.drawn[a.draws[i]];
  a.tokens[a.rows[i]] = token < 0 ? 0 : token;
}

} // namespace baton::gpu
