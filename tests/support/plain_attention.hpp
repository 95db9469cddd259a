// Attention over CSR page tables in plain loops: the oracle of libraries' attention, and one for
// devices without torch. Each row is a softmax in double over its positions in their order, so that
// no row depends on the rows beside it.
#pragma once

#include "runtime/gpu/device/paged_attention.hpp"

#include <functional>

namespace baton::gpu {

// As attend_singles() and attend_prompts(), with tables and memory of the host. `a.window` counts.
void walk_pages(const attend_args& a, const query_tables& tables);

class plain_attention final : public paged_attention {
public:
  // Runs or keeps what an attend_..() has to do.
  using runner = std::function<void(std::function<void()>)>;
  explicit plain_attention(runner run) : run_(std::move(run)) {}

  // Throws std::logic_error: the tables of a group are not those of its plan when it is attended
  // to, which for a recording is when it is replayed; single rows of a layer with a window.
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
