// Paged attention by a team of lanes. The query heads that share a KV head are processed together,
// so keys and values are read once. A few adjacent lanes share each position, with the online
// softmax of arXiv 1805.02867. A context may be split into parts for concurrent teams; merge_head
// combines their results (flash-decoding).
//
// Called by kernels_host.cpp and kernels_cuda_attend.cu.
#pragma once

#include "runtime/gpu/bodies/kernel_bodies.hpp"

namespace baton::gpu {

inline constexpr std::uint32_t positions_together = 4; // per pack, between two maximum updates

template <std::uint32_t Group>
struct heads_together {};

// Calls f(heads_together<Group>) with the query heads per team: at most those of a KV head.
template <class F>
void with_group(const attend_args& a, const F& f) {
  const std::uint32_t shared = a.heads / a.kv.kv_heads;
  if (shared == 1)
    f(heads_together<1>{});
  else if (shared == 2)
    f(heads_together<2>{});
  else if (shared <= 4)
    f(heads_together<4>{});
  else
    f(heads_together<8>{});
}

// Teams per row.
template <std::uint32_t Group>
BATON_BOTH std::uint32_t groups_of(const attend_args& a) {
  return a.kv.kv_heads * ((a.heads / a.kv.kv_heads + Group - 1) / Group);
}

// Lanes per position if each lane has up to PerLane of its dimensions.
template <std::uint32_t PerLane>
BATON_BODY std::uint32_t lanes_of_position(std::uint32_t size) {
  std::uint32_t width = 1;
  while (width * PerLane < size)
    width *= 2;
  return width;
}

// A lane's part of a head: `count` dimensions from `first` on.
template <std::uint32_t PerLane>
struct own_dimensions {
  std::uint32_t first, count;
  bool is_aligned; // all PerLane dimensions exist, in groups of eight

  BATON_BODY own_dimensions(std::uint32_t lane_index, std::uint32_t size)
      : first(lane_index * PerLane), count(first >= size            ? 0
                                           : size - first < PerLane ? size - first
                                                                    : PerLane),
        is_aligned(count == PerLane && size % 8 == 0) {}

  template <class E>
  BATON_BODY void load(const E* head, float (&to)[PerLane]) const {
    constexpr std::uint32_t run = 16 / sizeof(E);
    if (is_aligned) {
      BATON_UNROLL
      for (std::uint32_t i = 0; i < PerLane; i += run) {
        float part[run];
        load_run(head + first + i, part);
        BATON_UNROLL
        for (std::uint32_t k = 0; k < run; ++k)
          to[i + k] = part[k];
      }
      return;
    }
    BATON_UNROLL
    for (std::uint32_t i = 0; i < PerLane; ++i)
      to[i] = i < count ? widen(head[first + i]) : 0.0F;
  }
};

// Divides sums by the total of the softmax, with the head's sink, whose score may be the maximum.
struct with_sink {
  float kept = 1, whole;

  BATON_BODY with_sink(const attend_args& a, std::uint32_t head, float most, float total)
      : whole(total) {
    if (a.sinks == nullptr)
      return;
    const float sink = a.sinks[head], higher = sink > most ? sink : most;
    kept = expf(most - higher);
    whole = total * kept + expf(sink - higher);
  }
  BATON_BODY float operator()(float sum) const { return sum * kept / whole; }
};

// One row, one group of heads, one part of the context. Requires: lanes_of_position<PerLane>
// divides the team, PerLane is a multiple of 8.
template <class T, class KV, std::uint32_t Group, std::uint32_t PerLane, class Team>
BATON_BODY void attend_group(Team& team, const attend_args& a, std::uint32_t row,
                             std::uint32_t group, std::uint32_t split) {
  constexpr std::uint32_t tile = positions_together;
  const std::uint32_t size = a.kv.head_size, shared = a.heads / a.kv.kv_heads;
  const std::uint32_t teams = (shared + Group - 1) / Group; // per KV head
  const std::uint32_t kv_head = group / teams,
                      first_head = kv_head * shared + group % teams * Group;
  const std::uint32_t left = (kv_head + 1) * shared - first_head,
                      heads = left < Group ? left : Group;
  const std::uint32_t width = lanes_of_position<PerLane>(size);
  const std::uint32_t lane_index = team.lane % width, pack = team.lane / width,
                      packs = team.lanes / width;
  const own_dimensions<PerLane> own(lane_index, size);

  const std::uint32_t last = a.positions[row];
  const std::uint32_t first = a.window != 0 && last >= a.window ? last - a.window + 1 : 0;
  const std::uint32_t even =
      (last - first + a.splits) / a.splits; // of last - first + 1, rounded up
  const std::uint32_t length = even > split_positions_min ? even : split_positions_min;
  const std::uint32_t from = first + split * length;
  const std::uint32_t end = last + 1 < from + length ? last + 1 : from + length;
  const std::uint32_t rounds =
      from < end ? (end - from + packs * tile - 1) / (packs * tile) : 0; // the same in all lanes

  float q[Group][PerLane], sum[Group][PerLane], most[Group], total[Group];
  const auto* queries = static_cast<const T*>(a.projected) + std::uint64_t{row} * a.row_elements;
  BATON_UNROLL
  for (std::uint32_t g = 0; g < Group; ++g) {
    most[g] = lowest;
    total[g] = 0;
    const std::uint32_t head = first_head + (g < heads ? g : 0); // excess lanes read any head
    own.load(queries + std::uint64_t{head} * size, q[g]);
    BATON_UNROLL
    for (std::uint32_t i = 0; i < PerLane; ++i)
      sum[g][i] = 0;
  }

  const auto* keys = static_cast<const KV*>(a.kv.keys);
  const auto* values = static_cast<const KV*>(a.kv.values);
  const std::uint32_t* blocks = a.blocks + a.tables[row];
  const std::uint32_t page = a.kv.block_positions;
  std::uint32_t block = (from + pack * tile) / page, offset = (from + pack * tile) % page;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint32_t position = from + (round * packs + pack) * tile;
    float score[Group][tile];
    std::uint64_t at[tile];
    BATON_UNROLL
    for (std::uint32_t t = 0; t < tile; ++t) {
      std::uint32_t b = block, o = offset + t;
      while (o >= page) {
        o -= page;
        ++b;
      }
      if (position + t >= end) { // out of range: a valid position with weight 0
        b = from / page;
        o = from % page;
      }
      at[t] = ((std::uint64_t{blocks[b]} * a.kv.kv_heads + kv_head) * page + o) * size;
    }
    BATON_UNROLL
    for (std::uint32_t t = 0; t < tile; ++t) {
      float key[PerLane];
      own.load(keys + at[t], key);
      BATON_UNROLL
      for (std::uint32_t g = 0; g < Group; ++g) {
        float product = 0;
        BATON_UNROLL
        for (std::uint32_t i = 0; i < PerLane; ++i)
          product += q[g][i] * key[i];
        product = team.sum_within(product, width);
        score[g][t] = position + t < end ? soft_capped(product, a.soft_cap) : lowest;
      }
    }
    BATON_UNROLL
    for (std::uint32_t g = 0; g < Group; ++g) {
      float higher = most[g];
      BATON_UNROLL
      for (std::uint32_t t = 0; t < tile; ++t)
        higher = score[g][t] > higher ? score[g][t] : higher;
      const float kept = expf(most[g] - higher);
      most[g] = higher;
      total[g] *= kept;
      BATON_UNROLL
      for (std::uint32_t i = 0; i < PerLane; ++i)
        sum[g][i] *= kept;
      BATON_UNROLL
      for (std::uint32_t t = 0; t < tile; ++t) {
        score[g][t] = position + t < end ? expf(score[g][t] - higher) : 0.0F;
        total[g] += score[g][t];
      }
    }
    BATON_UNROLL
    for (std::uint32_t t = 0; t < tile; ++t) {
      float value[PerLane];
      own.load(values + at[t], value);
      BATON_UNROLL
      for (std::uint32_t g = 0; g < Group; ++g)
        BATON_UNROLL
      for (std::uint32_t i = 0; i < PerLane; ++i)
        sum[g][i] += score[g][t] * value[i];
    }
    for (offset += packs * tile; offset >= page; offset -= page)
      ++block;
  }

  // Combines the results of all packs.
  BATON_UNROLL
  for (std::uint32_t g = 0; g < Group; ++g) {
    const float all = team.max(most[g]), kept = expf(most[g] - all);
    const float whole = team.sum_across(total[g] * kept, width);
    BATON_UNROLL
    for (std::uint32_t i = 0; i < PerLane; ++i)
      sum[g][i] = team.sum_across(sum[g][i] * kept, width);
    if (pack != 0 || g >= heads)
      continue;
    const std::uint64_t head = std::uint64_t{row} * a.heads + first_head + g;
    if (a.splits == 1) {
      const with_sink last_step(a, first_head + g, all, whole);
      auto* out = static_cast<T*>(a.out) + head * size + own.first;
      BATON_UNROLL
      for (std::uint32_t i = 0; i < PerLane; ++i)
        if (i < own.count)
          narrow(last_step(sum[g][i]), out[i]);
      continue;
    }
    float* part = a.parts + (head * a.splits + split) * (size + 2);
    if (lane_index == 0) {
      part[0] = all;
      part[1] = whole;
    }
    BATON_UNROLL
    for (std::uint32_t i = 0; i < PerLane; ++i)
      if (i < own.count)
        part[2 + own.first + i] = sum[g][i];
  }
}

// Merges the parts of a head in order. An empty part has a total of 0.
template <class T, class Team>
BATON_BODY void merge_head(Team& team, const attend_args& a, std::uint32_t row,
                           std::uint32_t head) {
  const std::uint32_t size = a.kv.head_size;
  const std::uint64_t which = std::uint64_t{row} * a.heads + head;
  const float* parts = a.parts + which * a.splits * (size + 2);
  float most = lowest, total = 0;
  for (std::uint32_t s = 0; s < a.splits; ++s)
    most = parts[s * (size + 2)] > most ? parts[s * (size + 2)] : most;
  for (std::uint32_t s = 0; s < a.splits; ++s)
    total += parts[s * (size + 2) + 1] * expf(parts[s * (size + 2)] - most);
  const with_sink last_step(a, head, most, total);
  auto* out = static_cast<T*>(a.out) + which * size;
  for (std::uint32_t i = team.lane; i < size; i += team.lanes) {
    float sum = 0;
    for (std::uint32_t s = 0; s < a.splits; ++s)
      sum += parts[s * (size + 2) + 2 + i] * expf(parts[s * (size + 2)] - most);
    narrow(last_step(sum), out[i]);
  }
}

} // namespace baton::gpu
