// Attention over CSR page tables in plain loops: the reference for attention libraries, and an
// implementation for devices without torch. Each row is a softmax in double over its positions in
// order, so that a row is independent of the other rows.
#pragma once

#include "runtime/gpu/device/paged_attention.hpp"

#include <functional>

namespace baton::gpu {

// As attend_singles() and attend_prompts(), with tables and memory of the host. Applies `a.window`.
void walk_pages(const attend_args& a, const query_tables& tables);

class plain_attention final : public paged_attention {
public:
  // Runs or records the work of an attend_..() call.
  using runner = std::function<void(std::function<void()>)>;
  explicit plain_attention(runner run) : run_(std::move(run)) {}

  // Throws std::logic_error for single rows of a layer with a window, and if a group's tables
  // differ from its plan when attention runs. A recording runs at its replay.
  void plan_singles(const query_tables& tables, bool is_recorded) override;
  void plan_prompts(const query_tables& tables) override;
  void attend_singles(const attend_args& a, const query_tables& tables) override;
  void attend_prompts(const attend_args& a, const query_tables& tables) override;

private:
  struct planned {
    std::uint32_t queries = 0, rows = 0;
    std::vector<std::int32_t> row_begin, page_begin, last_page;
    std::vector<std::uint32_t> pages;
  };
  static planned copy_of(const query_tables& tables);
  static void check_same(const planned& plan, const query_tables& tables);
  void attend(const attend_args& a, const query_tables& tables, const planned& plan);

  runner run_;
  planned singles_, prompts_;
};

} // namespace baton::gpu
