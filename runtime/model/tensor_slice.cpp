// Cuts the tensors of a layer for the ranks of a group. Heads and rows are units of equal cost:
// each goes to the rank that would finish it first.
#include "runtime/model/slice.hpp"

#include <algorithm>
#include <numeric>

namespace baton::model {
namespace {

// Outputs that an engine computes together: one block of the next matrix's input.
constexpr std::uint32_t rows_together = 32;

std::uint32_t ceiling(std::uint32_t count, std::uint32_t unit) {
  return (count + unit - 1) / unit;
}

// A dimension to cut: `count` items, in indivisible groups of `unit`.
struct whole_range {
  std::string_view what;
  std::uint32_t count = 0, unit = 1;
};

// One range per speed. The greedy choice is optimal for units of equal cost: giving the next unit
// to another rank ends no earlier.
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

std::uint32_t group_of(const description& model) noexcept {
  return model.head_count / model.kv_head_count;
}
std::uint32_t group_of(const description& model, std::uint32_t layer) noexcept {
  return model.head_count / model.heads_of(layer).kv_count;
}

// How many heads or groups of `columns` columns must stay together to form whole blocks.
std::uint32_t together(std::uint32_t columns, std::uint32_t block) {
  return block / std::gcd(block, columns);
}

// How many heads must stay together in every layer.
std::uint32_t heads_together(const description& model, std::uint32_t block) {
  auto heads = together(model.output_head_size(0), block);
  for (std::uint32_t layer = 0; layer < model.layers.size(); ++layer)
    heads = std::lcm(heads, together(model.output_head_size(layer), block));
  return heads;
}

std::uint32_t ffn_rows(const description& model) {
  return model.expert_count > 0 ? model.expert_ffn_size : model.ffn_size;
}

// Weights of a layer with these heads and rows of the ffn, in rows of hidden_size.
double rows_of_layer(const description& model, std::uint32_t heads, std::uint32_t kv_heads,
                     std::uint32_t ffn) {
  return 2.0 * model.head_size * (heads + kv_heads) + 3.0 * std::max(1U, model.expert_count) * ffn;
}

// Query heads of each rank; with or without cuts inside a KV head's group.
result<std::vector<index_range>> divide_heads(const description& model,
                                              std::span<const double> speeds, std::uint32_t block,
                                              head_cut cut) {
  const auto group = group_of(model);
  if (cut == head_cut::anywhere)
    return divide(model, {"heads", model.head_count, heads_together(model, block)}, speeds);
  const auto unit = std::lcm(group, heads_together(model, block)) / group;
  auto ranges = divide(model, {"KV heads", model.kv_head_count, unit}, speeds);
  if (ranges)
    for (auto& range : *ranges)
      range = {range.first * group, range.count * group};
  return ranges;
}

// Time of the slowest rank, by the weights of its heads.
double time_of(const description& model, std::span<const index_range> heads,
               std::span<const double> speeds) {
  double slowest = 0;
  for (std::size_t rank = 0; rank < heads.size(); ++rank) {
    const auto weights = heads[rank].count + kv_heads_of(model, heads[rank]).count;
    slowest = std::max(slowest, weights / speeds[rank]);
  }
  return slowest;
}

// Divides a KV head between ranks, which then both hold it, only if the slowest rank gets faster.
result<std::vector<index_range>> cut_heads(const description& model, std::span<const double> speeds,
                                           std::uint32_t block, head_cut cut) {
  auto whole_groups = divide_heads(model, speeds, block, head_cut::between_kv_heads);
  if (cut == head_cut::between_kv_heads)
    return whole_groups;
  auto finer = divide_heads(model, speeds, block, head_cut::anywhere);
  const bool is_finer_better =
      !whole_groups ||
      (finer && time_of(model, *finer, speeds) < time_of(model, *whole_groups, speeds));
  return is_finer_better ? finer : whole_groups;
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
    const auto mixer =
        layer < model.layers.size() ? model.layers[layer].mixer : mixer_kind::attention;
    const auto* out = mixer == mixer_kind::attention           ? "attn_output.weight"
                      : mixer == mixer_kind::short_convolution ? "shortconv.out_proj.weight"
                                                               : "ssm_out.weight";
    if (auto ok = widen(out, blocks.attention); !ok)
      return ok.error();
    const auto down =
        model.layers.at(layer).is_mixture ? "ffn_down_exps.weight" : "ffn_down.weight";
    if (auto ok = widen(down, blocks.ffn); !ok)
      return ok.error();
    if (model.layers[layer].is_mixture && model.has_ffn_beside_experts)
      if (auto ok = widen("ffn_down.weight", blocks.ffn); !ok)
        return ok.error();
    if (model.layers[layer].is_mixture && model.shared_ffn_size > 0)
      if (auto ok = widen("ffn_down_shexp.weight", blocks.ffn); !ok)
        return ok.error();
  }
  return blocks;
}

// Every rank has a part of a mixture's dense layers and shared experts.
static result<void> check_parts_beside(const description& model,
                                       const std::vector<tensor_slice>& slices) {
  for (const auto size : {model.is_mixed() ? model.ffn_size : 0, model.shared_ffn_size})
    for (const auto& slice : slices)
      if (size > 0 &&
          part_beside(slice.ffn, model.expert_ffn_size, size, model.cuts.ffn).count == 0)
        return fail(errc::does_not_fit, "'{}': {} rows of an ffn cannot be cut for {} ranks",
                    model.name, size, slices.size());
  return {};
}

result<std::vector<tensor_slice>> split(const description& model, std::uint32_t width,
                                        std::span<const double> speeds, const slice_blocks& blocks,
                                        head_cut cut) {
  if (width == 0)
    return fail(errc::invalid_value, "a group needs at least one rank");
  if (!speeds.empty() && speeds.size() != width)
    return fail(errc::invalid_value, "{} speeds for {} ranks", speeds.size(), width);
  for (const double speed : speeds)
    if (!(speed >= stage_speed_min && speed <= stage_speed_max)) // also refuses NaN
      return fail(errc::invalid_value, "a rank's speed is {}, not in [{}, {}]", speed,
                  stage_speed_min, stage_speed_max);
  if (width > 1 && model.qk_norm == qk_norm_kind::rows)
    return fail(errc::does_not_fit,
                "'{}': norms of whole rows of queries cannot be cut for {} ranks", model.name,
                width);
  if (width > 1 && model.recurrence)
    return fail(errc::does_not_fit, "'{}': recurrent layers cannot be cut for {} ranks", model.name,
                width);
  const auto has_own_ffn = [](const layer_description& layer) { return layer.ffn_size != 0; };
  if (width > 1 && (model.layer_input_size > 0 || std::ranges::any_of(model.layers, has_own_ffn)))
    return fail(errc::does_not_fit,
                "'{}': embeddings of each layer and ffns of several widths cannot be cut for {} "
                "ranks",
                model.name, width);
  std::vector<double> all_speeds(speeds.begin(), speeds.end());
  all_speeds.resize(width, 1.0);
  const auto heads = cut_heads(model, all_speeds, blocks.attention, cut);
  if (!heads)
    return heads.error();
  const whole_range ffn{"rows of the ffn", ffn_rows(model), blocks.ffn};
  const whole_range vocabulary{"rows of the head", model.vocab_size, rows_together};
  std::vector<tensor_slice> slices(width);
  for (const auto& [whole, to] :
       {std::pair(ffn, &tensor_slice::ffn), {vocabulary, &tensor_slice::vocabulary}}) {
    const auto ranges = divide(model, whole, all_speeds);
    if (!ranges)
      return ranges.error();
    for (std::uint32_t rank = 0; rank < width; ++rank)
      slices[rank].*to = (*ranges)[rank];
  }
  if (auto ok = check_parts_beside(model, slices); !ok)
    return ok.error();
  for (std::uint32_t rank = 0; rank < width; ++rank) {
    slices[rank].rank = rank;
    slices[rank].width = width;
    slices[rank].heads = (*heads)[rank];
    slices[rank].kv_heads = kv_heads_of(model, (*heads)[rank]);
  }
  return slices;
}

std::uint64_t rank_bytes(const description& model, const layer_range& range,
                         const tensor_slice& slice) {
  const double of_layer =
      rows_of_layer(model, slice.heads.count, slice.kv_heads.count, slice.ffn.count) /
      rows_of_layer(model, model.head_count, model.kv_head_count, ffn_rows(model));
  const double of_head = static_cast<double>(slice.vocabulary.count) / model.vocab_size;
  double bytes = 0;
  for (auto layer = range.first; layer < range.end(); ++layer)
    bytes += static_cast<double>(model.layer_bytes[layer]) * of_layer;
  if (range.has_embedding)
    bytes += static_cast<double>(model.embedding_bytes);
  if (range.has_head &&
      !(range.has_embedding && model.has_tied_embeddings)) // else it is the embedding
    bytes += static_cast<double>(model.head_bytes) * of_head;
  return static_cast<std::uint64_t>(bytes);
}

index_range kv_heads_of(const description& model, const index_range& heads) noexcept {
  const auto group = group_of(model), first = heads.first / group;
  return {first, ceiling(heads.end(), group) - first};
}

index_range kv_heads_of(const description& model, const index_range& heads,
                        std::uint32_t layer) noexcept {
  const auto group = group_of(model, layer), first = heads.first / group;
  return {first, ceiling(heads.end(), group) - first};
}

head_map::head_map(const description& model, const tensor_slice& slice) noexcept
    : group_(group_of(model)), before_(slice.heads.first - slice.kv_heads.first * group_),
      count_(slice.heads.count) {}

head_map::head_map(const description& model, const tensor_slice& slice,
                   std::uint32_t layer) noexcept
    : group_(group_of(model, layer)), before_(slice.heads.first % group_),
      count_(slice.heads.count) {}

index_range head_map::of(std::uint32_t kv_head) const noexcept {
  const auto at = [&](std::uint32_t heads) {
    return std::clamp(heads, before_, before_ + count_) - before_;
  };
  const auto first = at(kv_head * group_);
  return {first, at((kv_head + 1) * group_) - first};
}

index_range part_beside(const index_range& part, std::uint32_t whole, std::uint32_t size,
                        std::uint32_t block) noexcept {
  const auto border = [&](std::uint32_t at) {
    if (at == whole)
      return size;
    const std::uint64_t rows = std::uint64_t{at} * size / whole;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>((rows + block / 2) / block * block, size));
  };
  return {border(part.first), border(part.end()) - border(part.first)};
}

description sliced(const description& model, const tensor_slice& slice) {
  description own = model;
  own.head_count = slice.heads.count;
  own.kv_head_count = slice.kv_heads.count;
  for (std::uint32_t layer = 0; layer < own.layers.size(); ++layer)
    if (own.layers[layer].kv_head_count != 0)
      own.layers[layer].kv_head_count = kv_heads_of(model, slice.heads, layer).count;
  (model.expert_count > 0 ? own.expert_ffn_size : own.ffn_size) = slice.ffn.count;
  const auto beside = [&](std::uint32_t size) {
    return part_beside(slice.ffn, model.expert_ffn_size, size, model.cuts.ffn).count;
  };
  if (model.is_mixed())
    own.ffn_size = beside(model.ffn_size);
  if (model.shared_ffn_size > 0)
    own.shared_ffn_size = beside(model.shared_ffn_size);
  return own;
}

} // namespace baton::model
