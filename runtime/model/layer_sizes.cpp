// Sizes that differ between the layers of a model, and what they share.
#include "runtime/model/describe_parts.hpp"

#include <algorithm>

namespace baton::model {
namespace {

// The last layer before `end` of the same kind as `layer`: with a window, or without one.
std::optional<std::uint32_t> last_alike(const description& d, std::uint32_t layer,
                                        std::uint32_t end) {
  for (auto i = end; i-- > 0;) {
    if ((d.layers[i].window > 0) == (d.layers[layer].window > 0)) {
      return i;
    }
  }
  return std::nullopt;
}

// The last layers read the keys and values of the last layer of their kind before them.
result<void> share_keys(const model_file& file, description& d) {
  const auto name = d.architecture + ".attention.shared_kv_layers";
  const auto shared = file.get_u32(name, 0);
  if (!shared) {
    return shared.error();
  }
  if (*shared > d.layer_count) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}: the model has {} layers",
                file.original_name(name), *shared, d.layer_count);
  }
  const auto first = d.layer_count - *shared;
  for (auto i = first; i < d.layer_count; ++i) {
    d.layers[i].kv_layer = last_alike(d, i, first);
    if (!d.layers[i].kv_layer) {
      return fail(errc::bad_model_file,
                  "metadata key '{}' is {}: layer {} has no earlier layer of its kind",
                  file.original_name(name), *shared, i);
    }
  }
  return {};
}

// A directory says whether layers without a window have keys as values. GGUF has no key: the
// tensors decide, as in llama.cpp.
result<void> read_keys_as_values(const model_file& file, description& d) {
  const auto name = d.architecture + ".attention.keys_as_values";
  const auto stated = file.get_bool(name, false);
  if (!stated) {
    return stated.error();
  }
  for (std::uint32_t i = 0; i < d.layer_count; ++i) {
    d.layers[i].has_keys_as_values =
        d.layers[i].window == 0 && !d.layers[i].kv_layer &&
        (file.has(name) ? *stated : !file.find(layer_tensor_name(i, "attn_v.weight")));
  }
  return {};
}

result<void> check_sizes_of_layer(const model_file& file, const description& d,
                                  std::uint32_t layer) {
  const auto heads = d.heads_of(layer);
  if (d.head_count % heads.kv_count != 0) {
    return fail(errc::bad_model_file, "{} attention heads cannot share {} KV heads in layer {}",
                d.head_count, heads.kv_count, layer);
  }
  if (std::uint64_t{d.head_count} * heads.size > width_max) {
    return fail(errc::bad_model_file, "{} heads of size {} exceed the width limit of {}",
                d.head_count, heads.size, width_max);
  }
  const auto rope = d.layers[layer].rope;
  if (rope &&
      (d.ropes[*rope].dimension_count > heads.size || d.ropes[*rope].dimension_count % 2 != 0)) {
    return fail(errc::bad_model_file, "{} is {}: odd, or above a head of {} in layer {}",
                file.original_name(d.architecture + ".rope.dimension_count_swa"),
                d.ropes[*rope].dimension_count, heads.size, layer);
  }
  return {};
}

} // namespace

result<std::vector<std::uint32_t>> read_sizes_of_layers(const model_file& file,
                                                        const description& d, std::string_view key,
                                                        std::optional<std::uint32_t> otherwise) {
  const auto name = fmt::format("{}.{}", d.architecture, key);
  std::vector<std::uint32_t> sizes;
  if (file.array_size(name)) {
    auto list = file.get_u32s(name);
    if (!list) {
      return list.error();
    }
    sizes = *std::move(list);
  } else {
    const auto one = otherwise ? file.get_u32(name, *otherwise) : file.get_u32(name);
    if (!one) {
      return one.error();
    }
    sizes.assign(d.layer_count, *one);
  }
  const auto is_size = [](std::uint32_t size) { return size > 0 && size <= width_max; };
  if (sizes.size() < d.layer_count || !std::ranges::all_of(sizes, is_size)) {
    return fail(errc::bad_model_file,
                "metadata key '{}' is [{}]: expected {} numbers in [1, {}], one for each layer",
                file.original_name(name), fmt::join(sizes, ", "), d.layer_count, width_max);
  }
  return sizes;
}

result<void> read_layer_sizes(const model_file& file, const family& kind, description& d) {
  if (!kind.takes_windowed_sizes) {
    return {};
  }
  const auto counts = read_sizes_of_layers(file, d, "attention.head_count_kv", d.head_count);
  const auto ffns = read_sizes_of_layers(file, d, "feed_forward_length", d.ffn_size);
  if (!counts || !ffns) {
    return counts ? ffns.error() : counts.error();
  }
  std::uint32_t keys = 0, values = 0;
  size_reader sizes(file, d.architecture);
  sizes.read(keys, "attention.key_length_swa", width_max, d.head_size);
  sizes.read(values, "attention.value_length_swa", width_max, keys);
  if (sizes.first_error()) {
    return *sizes.first_error();
  }
  if (keys != values) {
    return fail(errc::unsupported_model, "{}.attention.value_length_swa is {}, the key length {}",
                d.architecture, values, keys);
  }
  const auto own = [](std::uint32_t size, std::uint32_t usual) { return size == usual ? 0 : size; };
  for (std::uint32_t i = 0; i < d.layer_count; ++i) {
    auto& layer = d.layers[i];
    layer.head_size = layer.window > 0 ? own(keys, d.head_size) : 0;
    layer.kv_head_count = own((*counts)[i], d.kv_head_count);
    layer.ffn_size = own((*ffns)[i], d.ffn_size);
    if (auto r = check_sizes_of_layer(file, d, i); !r) {
      return r;
    }
  }
  if (auto r = share_keys(file, d); !r) {
    return r;
  }
  if (auto r = read_keys_as_values(file, d); !r) {
    return r;
  }
  const auto inputs = file.get_u32(d.architecture + ".embedding_length_per_layer_input", 0);
  if (!inputs) {
    return inputs.error();
  }
  if (std::uint64_t{*inputs} * d.layer_count > width_max) {
    return fail(errc::bad_model_file, "metadata key '{}' is {}: {} layers exceed the width limit",
                file.original_name(d.architecture + ".embedding_length_per_layer_input"), *inputs,
                d.layer_count);
  }
  d.layer_input_size = *inputs;
  return {};
}

std::uint32_t description::kv_layers(std::uint32_t first, std::uint32_t end) const noexcept {
  std::uint32_t count = 0;
  for (auto i = first; i < end; ++i) {
    count += has_own_kv(i) ? 1 : 0;
  }
  return count;
}

bool description::has_own_kv(std::uint32_t layer) const noexcept {
  return layer >= layers.size() ||
         (layers[layer].mixer == mixer_kind::attention && !layers[layer].kv_layer);
}

layer_heads description::heads_of(std::uint32_t layer) const noexcept {
  layer_heads heads{kv_head_count, head_size};
  if (layer < layers.size() && layers[layer].head_size != 0) {
    heads.size = layers[layer].head_size;
  }
  if (layer < layers.size() && layers[layer].kv_head_count != 0) {
    heads.kv_count = layers[layer].kv_head_count;
  }
  return heads;
}

std::uint32_t description::ffn_size_of(std::uint32_t layer) const noexcept {
  return layer < layers.size() && layers[layer].ffn_size != 0 ? layers[layer].ffn_size : ffn_size;
}

layer_heads description::largest_heads() const noexcept {
  layer_heads largest{kv_head_count, head_size};
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    const auto own = heads_of(i);
    if (i == 0 ||
        std::uint64_t{own.kv_count} * own.size > std::uint64_t{largest.kv_count} * largest.size) {
      largest = own;
    }
  }
  return largest;
}

std::uint32_t description::q_size_max() const noexcept {
  std::uint32_t widest = q_size();
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    widest = std::max(widest, q_size(i));
  }
  return widest;
}

std::uint32_t description::ffn_size_max() const noexcept {
  std::uint32_t widest = ffn_size;
  for (const auto& layer : layers) {
    widest = std::max(widest, layer.ffn_size);
  }
  return widest;
}

std::string_view description::uncut_feature() const noexcept {
  const auto shares = [](const layer_description& layer) { return layer.kv_layer.has_value(); };
  return layer_input_size > 0                  ? "embeddings of each layer"
         : std::ranges::any_of(layers, shares) ? "layers that read the keys of an earlier one"
                                               : "";
}

bool description::has_uneven_layers() const noexcept {
  return std::ranges::any_of(layers, [](const layer_description& layer) {
    return layer.head_size != 0 || layer.kv_head_count != 0 || layer.ffn_size != 0;
  });
}

} // namespace baton::model
