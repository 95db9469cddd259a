// Goal: the tables for a library's attention describe the same step as those for our kernels.
// Method: tables written out here. Random steps, with attention by a walk over the tables and by
// the kernel's body, in groups and in all rows at once.
#include "runtime/gpu/device/query_groups.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/gpu/random_step.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

namespace {

using numbers = std::vector<std::int32_t>;
using blocks = std::vector<std::uint32_t>;

plugin::slice slice_of(std::uint32_t position, std::uint32_t rows, const blocks& in) {
  return {position, rows, 0, in.data(), static_cast<std::uint32_t>(in.size())};
}

plugin::batch batch_with(const std::vector<plugin::slice>& slices) {
  plugin::batch b;
  b.slices = slices.data();
  b.slice_count = static_cast<std::uint32_t>(slices.size());
  for (const auto& s : slices)
    b.rows += s.rows;
  return b;
}

struct group_shape {
  std::uint32_t heads, kv_heads, size;
};

// Queries, keys and values of a step, and its attention computed in two ways.
struct attended {
  attended(const random_step& step, const step_extent& e, const group_shape& s,
           std::uint32_t window, float cap)
      : row_elements((s.heads + 2 * s.kv_heads) * s.size),
        queries(random_floats(step.batch.rows * row_elements, 5, 2)),
        keys(random_floats(e.blocks * s.kv_heads * e.block_positions * s.size, 6)),
        values(random_floats(keys.size(), 7)) {
    a.kind = element::f32;
    a.rows = step.batch.rows;
    a.heads = s.heads;
    a.row_elements = row_elements;
    a.projected = queries.data();
    a.positions = step.positions.data();
    a.tables = step.tables.data();
    a.blocks = step.groups.pages().data();
    a.window = window;
    a.soft_cap = cap;
    a.kv = {element::f32, keys.data(), values.data(), e.block_positions, s.kv_heads, s.size};
    a.splits = 1;
  }

  std::vector<float> by_body() {
    std::vector<float> out(std::size_t{a.rows} * a.heads * a.kv.head_size, NAN);
    a.out = out.data();
    host_kernels().attend(a, nullptr);
    return out;
  }
  std::vector<float> by_walk(const query_groups& groups) {
    std::vector<float> out(std::size_t{a.rows} * a.heads * a.kv.head_size, NAN);
    for (const auto* group : {&groups.singles(), &groups.prompts()}) {
      auto part = a;
      part.projected = queries.data() + std::size_t{group->first_row} * row_elements;
      part.out = out.data() + std::size_t{group->first_row} * a.heads * a.kv.head_size;
      part.rows = group->rows;
      walk_pages(part, group->tables(groups.pages()));
    }
    return out;
  }

  std::uint32_t row_elements;
  std::vector<float> queries, keys, values;
  attend_args a{};
};

} // namespace

TEST_CASE("the rows of a step form two groups of sequences with the pages that they reach") {
  const blocks first{7}, second{3, 9}, third{4, 2, 8}, fourth{5}, fifth{1, 6};
  // Pages of 4. The second sequence has one block more than it needs.
  const std::vector<plugin::slice> slices{slice_of(3, 1, first), slice_of(2, 1, second),
                                          slice_of(6, 4, third), slice_of(0, 1, fourth),
                                          slice_of(0, 8, fifth)};
  query_groups g;
  g.set(batch_with(slices), 4);
  CHECK(g.pages() == blocks{7, 3, 4, 2, 8, 5, 1, 6});
  CHECK(g.first_pages() == blocks{0, 1, 2, 5, 6});
  CHECK(g.singles().first_row == 0);
  CHECK(g.singles().rows == 2);
  CHECK(g.singles().row_begin == numbers{0, 1, 2});
  CHECK(g.singles().page_begin == numbers{0, 1, 2});
  CHECK(g.singles().last_page == numbers{4, 3});
  CHECK(g.prompts().first_row == 2);
  CHECK(g.prompts().first_page == 2);
  CHECK(g.prompts().rows == 13);
  CHECK(g.prompts().row_begin == numbers{0, 4, 5, 13});
  CHECK(g.prompts().page_begin == numbers{0, 3, 4, 6});
  CHECK(g.prompts().last_page == numbers{2, 1, 4});
  const auto tables = g.prompts().tables(g.pages());
  CHECK(tables.queries == 3);
  CHECK(tables.rows == 13);
  CHECK(tables.pages == g.pages().data() + 2);

  // The previous step leaves nothing behind.
  g.set(batch_with({slice_of(5, 1, second)}), 4);
  CHECK(g.pages() == second);
  CHECK(g.singles().last_page == numbers{2});
  CHECK(g.prompts().queries() == 0);
  CHECK(g.prompts().row_begin == numbers{0});
}

TEST_CASE("a padded step has sequences of one position in an unowned block") {
  const blocks first{7, 3}, second{9};
  const std::vector<plugin::slice> slices{slice_of(5, 1, first), slice_of(0, 1, second)};
  query_groups g;
  g.set_padded(batch_with(slices), 4, 4, 20);
  CHECK(g.pages() == blocks{7, 3, 9, 20, 20});
  CHECK(g.first_pages() == blocks{0, 2, 3, 4});
  CHECK(g.singles().rows == 4);
  CHECK(g.singles().page_begin == numbers{0, 2, 3, 4, 5});
  CHECK(g.singles().last_page == numbers{2, 1, 1, 1});
  CHECK(g.prompts().queries() == 0);
}

TEST_CASE("a walk over the tables attends to what the kernel's body attends to") {
  std::uint32_t seed = 1;
  for (const auto& s : {group_shape{2, 2, 12}, {6, 2, 40}, {8, 1, 16}})
    for (const auto& [window, cap] : {std::pair(0U, 0.0F), {5U, 0.0F}, {21U, 1.5F}})
      for (const auto& [singles, prompts] : {std::pair(4U, 0U), {0U, 3U}, {5U, 2U}})
        for (const std::uint32_t page : {4U, 16U}) {
          const step_extent e{singles, prompts, 40, 30, page, 40};
          const random_step step(e, ++seed);
          attended both(step, e, s, window, cap);
          const auto expected = both.by_body(), found = both.by_walk(step.groups);
          CAPTURE(seed);
          REQUIRE(found.size() == expected.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            CAPTURE(i);
            REQUIRE(std::abs(found[i] - expected[i]) <= 1e-4F * (1 + std::abs(expected[i])));
          }
        }
}
