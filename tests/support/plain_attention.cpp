#include "tests/support/plain_attention.hpp"

#include "runtime/gpu/bodies/with_type.hpp"
#include "runtime/gpu/device/scalar.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace baton::gpu {
namespace {

template <class T>
double number(const void* from, std::uint64_t at) {
  return static_cast<double>(widen(static_cast<const T*>(from)[at]));
}

// Computes one head of one row, whose keys end at `positions`.
template <class T, class KV>
void walk_head(const attend_args& a, const std::uint32_t* pages, std::uint32_t positions,
               std::uint32_t row, std::uint32_t head) {
  const std::uint32_t size = a.kv.head_size, page = a.kv.block_positions;
  const std::uint32_t kv_head = head / (a.heads / a.kv.kv_heads);
  const std::uint64_t query = std::uint64_t{row} * a.row_elements + std::uint64_t{head} * size;
  const auto kv_index = [&](std::uint32_t p) {
    return ((std::uint64_t{pages[p / page]} * a.kv.kv_heads + kv_head) * page + p % page) * size;
  };
  const std::uint32_t first = a.window != 0 && positions > a.window ? positions - a.window : 0;
  std::vector<double> scores, sum(size);
  double most = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::uint32_t p = first; p < positions; ++p) {
    double score = 0;
    for (std::uint32_t i = 0; i < size; ++i)
      score += number<T>(a.projected, query + i) * number<KV>(a.kv.keys, kv_index(p) + i);
    if (a.soft_cap > 0)
      score = static_cast<double>(a.soft_cap) * std::tanh(score / static_cast<double>(a.soft_cap));
    scores.push_back(score);
    most = std::max(most, score);
  }
  for (std::uint32_t p = first; p < positions; ++p) {
    const double weight = std::exp(scores[p - first] - most);
    total += weight;
    for (std::uint32_t i = 0; i < size; ++i)
      sum[i] += weight * number<KV>(a.kv.values, kv_index(p) + i);
  }
  auto* out = static_cast<T*>(a.out) + (std::uint64_t{row} * a.heads + head) * size;
  for (std::uint32_t i = 0; i < size; ++i)
    narrow(static_cast<float>(sum[i] / total), out[i]);
}

} // namespace

void walk_pages(const attend_args& a, const query_tables& t) {
  with_type(a.kind, [&](auto kind) {
    with_type(a.kv.kind, [&](auto kv) {
      for (std::uint32_t q = 0; q < t.queries; ++q) {
        const auto first_row = static_cast<std::uint32_t>(t.row_begin[q]);
        const auto rows = static_cast<std::uint32_t>(t.row_begin[q + 1]) - first_row;
        const auto pages = static_cast<std::uint32_t>(t.page_begin[q + 1] - t.page_begin[q]);
        const std::uint32_t positions =
            (pages - 1) * a.kv.block_positions + static_cast<std::uint32_t>(t.last_page[q]);
        for (std::uint32_t r = 0; r < rows; ++r)
          for (std::uint32_t head = 0; head < a.heads; ++head)
            walk_head<decltype(kind), decltype(kv)>(a, t.pages + t.page_begin[q],
                                                    positions - rows + r + 1, first_row + r, head);
      }
    });
  });
}

plain_attention::planned plain_attention::copy_of(const query_tables& t) {
  const auto queries = std::size_t{t.queries};
  return {t.queries,
          t.rows,
          {t.row_begin, t.row_begin + queries + 1},
          {t.page_begin, t.page_begin + queries + 1},
          {t.last_page, t.last_page + queries},
          {t.pages, t.pages + t.page_begin[queries]}};
}

void plain_attention::check_same(const planned& plan, const query_tables& t) {
  if (plan.queries != t.queries || plan.rows != t.rows)
    throw std::logic_error("attention to another number of rows than was planned");
  const auto found = copy_of(t);
  if (found.row_begin != plan.row_begin || found.page_begin != plan.page_begin ||
      found.last_page != plan.last_page || found.pages != plan.pages)
    throw std::logic_error("attention by other tables than was planned");
}

void plain_attention::plan_singles(const query_tables& tables, bool /*is_recorded*/) {
  run_([this, plan = copy_of(tables)] { singles_ = plan; });
}

void plain_attention::plan_prompts(const query_tables& tables) {
  run_([this, plan = copy_of(tables)] { prompts_ = plan; });
}

void plain_attention::attend_singles(const attend_args& a, const query_tables& tables) {
  if (a.window != 0)
    throw std::logic_error("single rows of a layer with a window");
  attend(a, tables, singles_);
}

void plain_attention::attend_prompts(const attend_args& a, const query_tables& tables) {
  attend(a, tables, prompts_);
}

// A recorded call reads the plan of the step in which it runs.
void plain_attention::attend(const attend_args& a, const query_tables& tables,
                             const planned& plan) {
  run_([a, tables, &plan] {
    check_same(plan, tables);
    walk_pages(a, tables);
  });
}

} // namespace baton::gpu
