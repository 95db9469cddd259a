// Reads tensors from the file and packs them, in parallel.
#include "runtime/cpu/forward/weight_placement.hpp"

#include "runtime/cpu/panels/panel.hpp"
#include "runtime/cpu/panels/weight_block.hpp"

#include <cmath>
#include <cstring>
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

void write_floats(const std::vector<float>& values, model::tensor_type type, std::byte* to) {
  const std::size_t size = model::tensor_type_traits(type).block_bytes;
  for (const float value : values) {
    const std::uint16_t half =
        type == model::tensor_type::bf16 ? model::f32_to_bf16(value) : model::f32_to_f16(value);
    if (type == model::tensor_type::f32)
      std::memcpy(to, &value, size);
    else
      std::memcpy(to, &half, size);
    to += size;
  }
}

result<void> pack_transposed(const model::model_file& file, const placement& target) {
  const auto& tensor = *target.tensor;
  const auto type = transposed_type(tensor.type);
  const std::uint64_t inputs = target.rows.count, outputs = tensor.columns();
  std::vector<std::byte> raw(inputs * tensor.row_bytes());
  if (auto ok = file.copy_rows(tensor.name, target.rows.first, inputs, raw); !ok)
    return ok;
  std::vector<float> values(inputs * outputs), row(inputs);
  for (std::uint64_t i = 0; i < inputs; ++i)
    model::dequantize_row(tensor.type, raw.data() + i * tensor.row_bytes(),
                          values.data() + i * outputs, outputs);
  const packed_matrix m{*panel_format_of(type), outputs, inputs, target.to, code_table_of(type)};
  const std::size_t row_bytes = inputs * model::tensor_type_traits(type).block_bytes;
  raw.resize(panel_rows * row_bytes);
  for (std::size_t p = 0; p < m.panel_count(); ++p) {
    const std::uint64_t first = p * panel_rows;
    const auto count = std::min<std::uint64_t>(panel_rows, outputs - first);
    for (std::uint64_t r = 0; r < count; ++r) {
      for (std::uint64_t i = 0; i < inputs; ++i)
        row[i] = values[i * outputs + first + r];
      write_floats(row, type, raw.data() + r * row_bytes);
    }
    pack_panel(type, raw.data(), count, row_bytes, inputs, target.to + p * m.panel_bytes());
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

model::tensor_type transposed_type(model::tensor_type type) noexcept {
  const bool keeps_type = type == model::tensor_type::f32 || type == model::tensor_type::bf16;
  return keeps_type ? type : model::tensor_type::f16;
}

result<void> fill_placements(const model::model_file& file,
                             const std::vector<placement>& placements, thread_team& team) {
  std::vector<result<void>> outcome(team.size());
  team.run([&](unsigned member) {
    for (std::size_t i = 0; i < placements.size() && outcome[member]; ++i) {
      const auto& target = placements[i];
      if (!target.is_vector && !target.is_transposed)
        outcome[member] = pack_share(file, target, member, team.size());
      else if (i % team.size() == member)
        outcome[member] =
            target.is_vector ? read_vector(file, target) : pack_transposed(file, target);
    }
  });
  for (auto& each : outcome)
    if (!each)
      return each;
  return {};
}

} // namespace baton::cpu
