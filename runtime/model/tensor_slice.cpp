// Cuts the tensors of a layer for the ranks of a group. Heads and rows are units of equal cost:
// each goes to the rank that is done first with it.
#include "runtime/model/slice.hpp"

#include <algorithm>
#include <numeric>

namespace baton::model {
namespace {

// Outputs that an engine computes together; a block of what the next matrix reads.
constexpr std::uint32_t rows_together = 32;

std::uint32_t ceiling(std::uint32_t count, std::uint32_t unit) {
  return (count + unit - 1) / unit;
}

// What is cut: `count` of it, `unit` of which stay together.
struct whole_range {
  std::string_view what;
  std::uint32_t count = 0, unit = 1;
};

// One range for each speed. Greedy is optimal for units of equal cost: any other choice of the rank
// for the next unit ends no earlier.
result<std::vector<index_range>> divide(const description& model, const whole_range& whole,
                                        std::span<const double> speeds) {
  const std::uint32_t units = ceiling(whole.count, whole.unit);
  if (units < speeds.size())
    return fail(errc::does_not_fit, "'{}': {} {}{} cannot be cut for {} ranks", model.name,
                whole.count, whole.what,
                whole.unit == 1 ? "" : fmt::format(" ({} stay together)", whole.unit),
                speeds.size());
  std::vector<std::uint32_t> units_of(speeds.size(), 1);
  for (auto left = units - static_cast<std::uint32_t>(speeds.size()); left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t rank = 1; rank < speeds.size(); ++rank)
      if ((units_of[rank] + 1) / speeds[rank] < (units_of[best] + 1) / speeds[best])
        best = rank;
    ++units_of[best];
  }
  std::vector<index_range> ranges;
  std::uint32_t first = 0;
  for (const std::uint32_t own : units_of) {
    const std::uint32_t end = std::min(first + own * whole.unit, whole.count); // the last is short
    ranges.push_back({first, end - first});
    first = end;
  }
  return ranges;
}

// How many KV heads have to stay together so that their columns are whole blocks.
std::uint32_t heads_together(const description& model, std::uint32_t block) {
  const std::uint32_t columns = model.head_count / model.kv_head_count * model.head_size;
  return block / std::gcd(block, columns);
}

std::uint32_t ffn_rows(const description& model) {
  return model.expert_count > 0 ? model.expert_ffn_size : model.ffn_size;
}

// Weights of a layer that has so many KV heads and rows of the ffn, in rows of hidden_size.
double rows_of_layer(const description& model, std::uint32_t kv_heads, std::uint32_t ffn) {
  const double group = model.head_count / model.kv_head_count;
  return 2 * (group + 1) * model.head_size * kv_heads +
         3.0 * std::max(1U, model.expert_count) * ffn;
}

} // namespace

result<slice_blocks> slice_blocks_of(const description& model, const model_file& file) {
  slice_blocks blocks;
  for (std::uint32_t layer = 0; layer < model.layer_count; ++layer) {
    const auto widen = [&](std::string_view role, std::uint32_t& block) -> result<void> {
      const auto name = layer_tensor_name(layer, role);
      const auto tensor = file.find(name);
      if (!tensor)
        return fail(errc::bad_model_file, "{}: tensor '{}' is missing", file.path().string(), name);
      block = std::lcm(block, tensor_type_traits(tensor->type).block_elements);
      return {};
    };
    if (auto ok = widen("attn_output.weight", blocks.attention); !ok)
      return ok.error();
    const auto down = model.expert_count > 0 ? "ffn_down_exps.weight" : "ffn_down.weight";
    if (auto ok = widen(down, blocks.ffn); !ok)
      return ok.error();
  }
  return blocks;
}

result<std::vector<tensor_slice>> split(const description& model, std::uint32_t width,
                                        std::span<const double> speeds,
                                        const slice_blocks& blocks) {
  if (width == 0)
    return fail(errc::invalid_value, "a group needs at least one rank");
  if (!speeds.empty() && speeds.size() != width)
    return fail(errc::invalid_value, "{} speeds for {} ranks", speeds.size(), width);
  for (const double speed : speeds)
    if (!(speed >= stage_speed_min && speed <= stage_speed_max)) // also refuses NaN
      return fail(errc::invalid_value, "a rank's speed is {}, not in [{}, {}]", speed,
                  stage_speed_min, stage_speed_max);
  std::vector<double> all_speeds(speeds.begin(), speeds.end());
  all_speeds.resize(width, 1.0);
  const whole_range heads{"KV heads", model.kv_head_count, heads_together(model, blocks.attention)};
  const whole_range ffn{"rows of the ffn", ffn_rows(model), blocks.ffn};
  const whole_range vocabulary{"rows of the head", model.vocab_size, rows_together};
  std::vector<tensor_slice> slices(width);
  for (const auto& [whole, to] : {std::pair(heads, &tensor_slice::kv_heads),
                                  {ffn, &tensor_slice::ffn},
                                  {vocabulary, &tensor_slice::vocabulary}}) {
    const auto ranges = divide(model, whole, all_speeds);
    if (!ranges)
      return ranges.error();
    for (std::uint32_t rank = 0; rank < width; ++rank)
      slices[rank].*to = (*ranges)[rank];
  }
  for (std::uint32_t rank = 0; rank < width; ++rank) {
    slices[rank].rank = rank;
    slices[rank].width = width;
  }
  return slices;
}

std::uint64_t rank_bytes(const description& model, const layer_range& range,
                         const tensor_slice& slice) {
  const double of_layer = rows_of_layer(model, slice.kv_heads.count, slice.ffn.count) /
                          rows_of_layer(model, model.kv_head_count, ffn_rows(model));
  const double of_head = static_cast<double>(slice.vocabulary.count) / model.vocab_size;
  double bytes = 0;
  for (auto layer = range.first; layer < range.end(); ++layer)
    bytes += static_cast<double>(model.layer_bytes[layer]) * of_layer;
  if (range.embeds)
    bytes += static_cast<double>(model.embedding_bytes);
  if (range.heads && !(range.embeds && model.has_tied_embeddings)) // else it is the embedding
    bytes += static_cast<double>(model.head_bytes) * of_head;
  return static_cast<std::uint64_t>(bytes);
}

description sliced(const description& model, const tensor_slice& slice) {
  description own = model;
  own.head_count = model.head_count / model.kv_head_count * slice.kv_heads.count;
  own.kv_head_count = slice.kv_heads.count;
  (model.expert_count > 0 ? own.expert_ffn_size : own.ffn_size) = slice.ffn.count;
  return own;
}

} // namespace baton::model
