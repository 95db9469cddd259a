#include "runtime/gpu/stage/step_attention.hpp"

#include <algorithm>

namespace baton::gpu {
namespace {

// A line for the log; empty: there is no choice.
std::string log_text(const chosen_attention& c) {
  const auto& why = c.use.why_not;
  if (c.name.empty())
    return {};
  if (!c.library)
    return "attention: own kernels, not " + c.name + ": " + why;
  if (!c.use.singles)
    return "attention: " + c.name + " for prompts, own kernels for single rows: " + why;
  return "attention: " + c.name + " for prompts and single rows";
}

} // namespace

attention_shape shape_of(const plugin::decoder& model, const plugin::settings& with) {
  attention_shape s;
  s.kind = with.weights;
  s.kv = with.kv;
  s.heads = model.head_count;
  s.kv_heads = model.kv_head_count;
  s.head_size = model.head_size;
  s.block_positions = with.block_positions;
  s.rows_max = with.rows_max;
  s.soft_cap = model.attention_soft_cap;
  for (std::uint32_t i = 0; i < model.layer_count; ++i)
    s.windows.push_back(model.layers[i].window);
  std::sort(s.windows.begin(), s.windows.end());
  s.windows.erase(std::unique(s.windows.begin(), s.windows.end()), s.windows.end());
  return s;
}

step_attention::step_attention(device& on, const plugin::decoder& model,
                               const plugin::settings& with,
                               const std::function<void(const std::string&)>& log_line)
    : on_(on), // no library knows sinks
      chosen_(model.has_sinks ? chosen_attention{} : on.attention(shape_of(model, with))) {
  if (const auto line = log_text(chosen_); !line.empty())
    log_line(line);
  std::uint64_t parts = 0;
  for (std::uint64_t rows = 1; rows <= with.rows_max; ++rows)
    if (const auto splits = on.splits_for(rows * model.kv_head_count); splits > 1)
      parts = std::max(parts, rows * splits);
  parts_ = on.take(parts * model.head_count * (model.head_size + 2) * sizeof(float));
}

void step_attention::plan(const step_rows& rows, bool is_recorded) {
  const auto& groups = rows.groups();
  if (chosen_.use.singles && groups.singles().queries() > 0)
    chosen_.library->plan_singles(groups.singles().tables(groups.pages()), is_recorded);
  if (chosen_.use.prompts && groups.prompts().queries() > 0)
    chosen_.library->plan_prompts(groups.prompts().tables(groups.pages()));
}

void step_attention::attend(const attend_args& of_layer, const step_rows& rows) {
  attend_args a = of_layer;
  a.rows = rows.rows();
  a.positions = rows.positions();
  a.tables = rows.tables();
  a.blocks = rows.blocks();
  if (!chosen_.library)
    return attend_itself(a);
  const auto singles = rows.singles(), prompts = rows.prompts();
  if (singles.queries > 0) {
    const auto own = part_of(a, 0, singles.rows);
    if (chosen_.use.singles && a.window == 0)
      chosen_.library->attend_singles(own, singles);
    else
      attend_itself(own);
  }
  if (prompts.queries > 0) {
    const auto own = part_of(a, singles.rows, prompts.rows);
    if (chosen_.use.prompts)
      chosen_.library->attend_prompts(own, prompts);
    else
      attend_itself(own);
  }
}

attend_args step_attention::part_of(const attend_args& a, std::uint32_t first,
                                    std::uint32_t rows) const {
  attend_args part = a;
  const std::uint64_t element = bytes_of(a.kind);
  part.rows = rows;
  part.projected =
      static_cast<const std::byte*>(a.projected) + first * std::uint64_t{a.row_elements} * element;
  part.out =
      static_cast<std::byte*>(a.out) + first * std::uint64_t{a.heads} * a.kv.head_size * element;
  part.positions += first;
  part.tables += first;
  return part;
}

void step_attention::attend_itself(attend_args a) {
  a.splits = on_.splits_for(std::uint64_t{a.rows} * a.kv.kv_heads);
  a.parts = parts_.as<float>();
  on_.kernels().attend(a, on_.stream());
}

} // namespace baton::gpu
