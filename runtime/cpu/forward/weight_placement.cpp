// Reads tensors from the file and packs them, in parallel.
#include "runtime/cpu/forward/weight_placement.hpp"

#include "runtime/cpu/panels/panel.hpp"
#include "runtime/cpu/panels/weight_block.hpp"

#include <cmath>
#include <span>

namespace baton::cpu {
namespace {

// Panels read and packed at a time: 0.1 to 1 MB of the file.
constexpr std::size_t panels_per_read = 8;

result<void> read_vector(const model::model_file& file, const placement& target) {
  const auto& tensor = *target.tensor; // the biases of experts have a row each
  const std::uint64_t first = target.columns.first / tensor.columns();
  const std::uint64_t end = target.columns.first + target.columns.count;
  const std::uint64_t rows = (end + tensor.columns() - 1) / tensor.columns() - first;
  std::vector<std::byte> raw(rows * tensor.row_bytes());
  if (auto ok = file.copy_rows(tensor.name, first, rows, raw); !ok)
    return ok;
  std::vector<float> all(rows * tensor.columns());
  model::dequantize_row(tensor.type, raw.data(), all.data(), all.size());
  const float* part = all.data() + (target.columns.first - first * tensor.columns());
  auto* to = reinterpret_cast<float*>(target.to);
  for (std::uint64_t i = 0; i < target.columns.count; ++i)
    switch (target.form) {
    case vector_form::stored:
      to[i] = part[i];
      break;
    case vector_form::by_columns:
      to[i % tensor.columns() * tensor.rows() + i / tensor.columns()] = part[i];
      break;
    case vector_form::decay:
      to[i] = static_cast<float>(-std::exp(double{part[i]}));
      break;
    }
  return {};
}

// Packs every size-th group of panels, starting at `member`.
result<void> pack_share(const model::model_file& file, const placement& target, unsigned member,
                        unsigned members) {
  const auto& tensor = *target.tensor;
  const std::uint64_t rows = target.rows.count, row_bytes = tensor.row_bytes();
  const packed_matrix m{*panel_format_of(tensor.type), rows, target.columns.count, target.to,
                        code_table_of(tensor.type)};
  const auto& traits = model::tensor_type_traits(tensor.type);
  const std::uint64_t column_at =
      target.columns.first / traits.block_elements * traits.block_bytes; // in a row of the file
  std::vector<std::byte> raw;
  for (std::size_t p = member * panels_per_read; p < m.panel_count();
       p += members * panels_per_read) {
    const std::uint64_t first = p * panel_rows;
    const std::uint64_t count = std::min<std::uint64_t>(panels_per_read * panel_rows, rows - first);
    raw.resize(count * row_bytes);
    for (std::uint64_t r = 0; r < count;) {
      const auto together = std::min(target.rows.left_in_run(first + r), count - r);
      if (auto ok = file.copy_rows(tensor.name, target.rows.at(first + r), together,
                                   std::span(raw).subspan(r * row_bytes, together * row_bytes));
          !ok)
        return ok;
      r += together;
    }
    for (std::uint64_t r = 0; r < count; r += panel_rows)
      pack_panel(tensor.type, raw.data() + r * row_bytes + column_at,
                 std::min<std::uint64_t>(panel_rows, count - r), row_bytes, m.columns,
                 target.to + (p + r / panel_rows) * m.panel_bytes());
  }
  return {};
}

} // namespace

result<void> fill_placements(const model::model_file& file,
                             const std::vector<placement>& placements, thread_team& team) {
  std::vector<result<void>> outcome(team.size());
  team.run([&](unsigned member) {
    for (std::size_t i = 0; i < placements.size() && outcome[member]; ++i) {
      if (!placements[i].is_vector)
        outcome[member] = pack_share(file, placements[i], member, team.size());
      else if (i % team.size() == member)
        outcome[member] = read_vector(file, placements[i]);
    }
  });
  for (auto& each : outcome)
    if (!each)
      return each;
  return {};
}

} // namespace baton::cpu
