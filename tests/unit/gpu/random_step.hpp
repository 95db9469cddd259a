// Steps of random sequences for the attention tests: single rows first, then prompts, in KV blocks
// of any order, some of them shared.
#pragma once

#include "runtime/gpu/device/query_groups.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace baton::testing {

struct step_extent {
  std::uint32_t singles = 0, prompts = 0;
  std::uint32_t positions_max = 1, rows_max = 1; // before a sequence's rows; in a prompt
  std::uint32_t block_positions = 16, blocks = 1;
};

// Its batch points into it, so it must not move.
struct random_step {
  random_step(const step_extent& of, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t most) {
      return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
    };
    std::vector<std::uint32_t> order(of.blocks);
    std::iota(order.begin(), order.end(), 0U);
    lists.reserve(of.singles + of.prompts);
    for (std::uint32_t i = 0; i < of.singles + of.prompts; ++i) {
      plugin::slice s;
      s.position = up_to(of.positions_max);
      s.rows = i < of.singles    ? 1
               : i == of.singles ? 2 + up_to(of.rows_max - 2)
                                 : 1 + up_to(of.rows_max - 1);
      s.block_count = (s.position + s.rows + of.block_positions - 1) / of.block_positions;
      std::shuffle(order.begin(), order.end(), random);
      lists.emplace_back(order.begin(), order.begin() + s.block_count);
      s.blocks = lists.back().data();
      slices.push_back(s);
      batch.rows += s.rows;
    }
    batch.slices = slices.data();
    batch.slice_count = static_cast<std::uint32_t>(slices.size());
    groups.set(batch, of.block_positions);
    for (std::size_t i = 0; i < slices.size(); ++i)
      for (std::uint32_t r = 0; r < slices[i].rows; ++r) {
        positions.push_back(slices[i].position + r);
        tables.push_back(groups.first_pages()[i]);
      }
  }
  random_step(const random_step&) = delete;
  random_step& operator=(const random_step&) = delete;

  std::vector<std::vector<std::uint32_t>> lists;
  std::vector<plugin::slice> slices;
  plugin::batch batch;
  gpu::query_groups groups;
  std::vector<std::uint32_t> positions, tables; // [rows], as kernel_table::attend has them
};

} // namespace baton::testing
