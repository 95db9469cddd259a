#include "runtime/gpu/stage/stage_weights.hpp"

#include "runtime/gpu/device/packed_format.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

namespace baton::gpu {
namespace {

using plugin::quantization;
using plugin::weight;
using plugin::weight_name;

// A thread reads and uploads so much at a time: enough for full transfer speed.
constexpr std::uint64_t chunk_bytes_max = std::uint64_t{8} << 20U;

// Rows of a weight and their destination.
struct chunk {
  weight_name name;
  std::uint64_t first = 0, rows = 0, row_bytes = 0;
  element as = element::f32;
  std::byte* to = nullptr;
  std::byte* scales = nullptr; // of the first row, if the weight is quantised; `as` is f32 then
};

class weight_loader {
public:
  weight_loader(device& on, const plugin::settings& with, const plugin::host& shard,
                std::vector<buffer>& memory)
      : on_(on), with_(with), shard_(shard), memory_(memory) {}

  // Concatenates weights of `expected` rows in total. Null if the model lacks the first one.
  const void* add_weights(const std::vector<weight_name>& names, plugin::extent expected,
                          element as) {
    return add_weights(names, expected, as, quantization::none).values;
  }
  matrix add_weights(const std::vector<weight_name>& names, plugin::extent expected, element as,
                     quantization form) {
    plugin::extent found;
    if (!shard_.find(shard_.context, names.front(), &found))
      return {};
    std::uint64_t rows = 0;
    for (const auto& name : names) {
      if (!shard_.find(shard_.context, name, &found))
        throw refused(plugin::status::unsupported_model, "a part of a weight is missing");
      if (found.columns != expected.columns)
        throw refused(plugin::status::unsupported_model,
                      "weight " + std::to_string(static_cast<std::uint32_t>(name.which)) +
                          " of layer " + std::to_string(name.layer) + " has " +
                          std::to_string(found.columns) + " columns, not " +
                          std::to_string(expected.columns));
      rows += found.rows;
    }
    if (rows != expected.rows)
      throw refused(plugin::status::unsupported_model,
                    "weight " + std::to_string(static_cast<std::uint32_t>(names.front().which)) +
                        " of layer " + std::to_string(names.front().layer) + " has " +
                        std::to_string(rows) + " rows, not " + std::to_string(expected.rows));
    packed_extent own{expected.columns * bytes_of(as), 0};
    if (form != quantization::none) {
      check_columns(names.front(), form, expected.columns);
      own = packed_extent_of(form, with_.group, expected.columns);
      as = element::f32;
    }
    auto *to = take(rows * own.values),
         *scales = own.scales > 0 ? take(rows * own.scales) : nullptr;
    const matrix added{to, scales};
    const std::uint64_t row_bytes = expected.columns * bytes_of(as);
    for (const auto& name : names) {
      shard_.find(shard_.context, name, &found);
      const std::uint64_t at_a_time = std::max<std::uint64_t>(1, chunk_bytes_max / row_bytes);
      for (std::uint64_t first = 0; first < found.rows; first += at_a_time) {
        const auto count = std::min(at_a_time, found.rows - first);
        chunks_.push_back({.name = name,
                           .first = first,
                           .rows = count,
                           .row_bytes = row_bytes,
                           .as = as,
                           .to = to,
                           .scales = scales});
        to += count * own.values;
        scales = scales != nullptr ? scales + count * own.scales : nullptr;
      }
    }
    return added;
  }

  // A matrix of a layer, quantised if the settings require it.
  matrix layer_matrix(const std::vector<weight_name>& names, std::uint64_t rows,
                      std::uint64_t columns) {
    return add_weights(names, {rows, columns}, with_.weights, with_.quantized);
  }
  matrix whole_matrix(const std::vector<weight_name>& names, std::uint64_t rows,
                      std::uint64_t columns) {
    return add_weights(names, {rows, columns}, with_.weights, quantization::none);
  }
  // A weight with one row.
  const float* vector(weight_name name, std::uint64_t columns) {
    return static_cast<const float*>(add_weights({name}, {1, columns}, element::f32));
  }
  const float* rows(weight_name name, std::uint64_t count, std::uint64_t columns) {
    return static_cast<const float*>(add_weights({name}, {count, columns}, element::f32));
  }
  // Row i of the first, then row i of the second, and so on.
  const float* rows_beside(weight_name first, weight_name second, std::uint64_t count,
                           std::uint64_t columns) {
    plugin::extent found;
    if (!shard_.find(shard_.context, first, &found))
      return nullptr;
    auto* to = take(2 * count * columns * sizeof(float));
    const auto* begin = memory_.back().as<float>();
    for (std::uint64_t row = 0; row < count; ++row)
      for (const auto& name : {first, second}) {
        if (!shard_.find(shard_.context, name, &found) || found.columns != columns ||
            found.rows != count)
          throw refused(plugin::status::unsupported_model, "biases of experts have wrong sizes");
        add_row(name, row, columns, to);
      }
    return begin;
  }
  // Concatenates vectors of the given lengths.
  const float* vectors(const std::vector<std::pair<weight_name, std::uint64_t>>& parts) {
    std::uint64_t total = 0;
    plugin::extent found;
    if (!shard_.find(shard_.context, parts.front().first, &found))
      return nullptr;
    for (const auto& [name, columns] : parts)
      total += columns;
    auto* to = take(total * sizeof(float));
    const auto* begin = memory_.back().as<float>();
    for (const auto& [name, columns] : parts) {
      if (!shard_.find(shard_.context, name, &found) || found.columns != columns)
        throw refused(plugin::status::unsupported_model, "attention biases have wrong sizes");
      add_row(name, 0, columns, to);
    }
    return begin;
  }

  // Loads all placed weights with several threads.
  void fill() {
    std::atomic<std::size_t> next{0};
    std::exception_ptr thrown;
    std::mutex guards_thrown;
    const auto work = [&] {
      try {
        std::uint64_t largest = 1;
        for (const auto& c : chunks_)
          largest = std::max(largest, c.rows * c.row_bytes * (c.scales != nullptr ? 2 : 1));
        const auto staging = on_.take_host(largest);
        for (std::size_t i = next++; i < chunks_.size(); i = next++)
          fill(chunks_[i], staging.as<std::byte>());
      } catch (...) {
        const std::lock_guard lock(guards_thrown);
        thrown = std::current_exception();
        next = chunks_.size();
      }
    };
    std::vector<std::thread> others;
    for (std::uint32_t i = 1; i < with_.threads; ++i)
      others.emplace_back(work);
    work();
    for (auto& each : others)
      each.join();
    if (thrown)
      std::rethrow_exception(thrown);
  }

private:
  std::byte* take(std::uint64_t bytes) {
    memory_.push_back(on_.take(bytes));
    return memory_.back().as<std::byte>();
  }
  // One row as floats, at `to`, which moves behind it.
  void add_row(weight_name name, std::uint64_t row, std::uint64_t columns, std::byte*& to) {
    chunks_.push_back({.name = name,
                       .first = row,
                       .rows = 1,
                       .row_bytes = columns * sizeof(float),
                       .as = element::f32,
                       .to = to,
                       .scales = nullptr});
    to += columns * sizeof(float);
  }

  void check_columns(const weight_name& name, quantization form, std::uint64_t columns) const {
    const auto step = packed_columns_step(form, with_.group);
    if (columns % step != 0)
      throw refused(plugin::status::unsupported_model,
                    "weight " + std::to_string(static_cast<std::uint32_t>(name.which)) +
                        " of layer " + std::to_string(name.layer) + " has " +
                        std::to_string(columns) + " columns: quantised to " +
                        std::string(quantization_name(form)) + " they must be a multiple of " +
                        std::to_string(step));
  }

  // Packs row by row after the read data, then uploads values and scales.
  void pack(const chunk& c, std::byte* staging) {
    const std::uint64_t columns = c.row_bytes / sizeof(float);
    const auto own = packed_extent_of(with_.quantized, with_.group, columns);
    std::byte *values = staging + c.rows * c.row_bytes, *scales = values + c.rows * own.values;
    for (std::uint64_t row = 0; row < c.rows; ++row)
      if (!pack_output(with_.quantized, with_.group,
                       reinterpret_cast<const float*>(staging + row * c.row_bytes), columns,
                       values + row * own.values, scales + row * own.scales))
        throw refused(plugin::status::unsupported_model,
                      "weight " + std::to_string(static_cast<std::uint32_t>(c.name.which)) +
                          " of layer " + std::to_string(c.name.layer) +
                          " has a number that is not finite: it cannot be quantised");
    on_.upload(c.to, values, c.rows * own.values);
    on_.upload(c.scales, scales, c.rows * own.scales);
  }

  void fill(const chunk& c, std::byte* staging) {
    plugin::failure why;
    if (const auto s = shard_.read(shard_.context, c.name, c.first, c.rows, c.as, staging, &why);
        s != plugin::status::ok)
      throw refused(s, why.message);
    if (c.scales != nullptr)
      return pack(c, staging);
    on_.upload(c.to, staging, c.rows * c.row_bytes);
  }

  device& on_;
  const plugin::settings& with_;
  const plugin::host& shard_;
  std::vector<buffer>& memory_;
  std::vector<chunk> chunks_;
};

void add_beside_experts(weight_loader& loader, const plugin::decoder& m, std::uint32_t index,
                        layer_weights& l) {
  const auto name = [&](weight which) { return weight_name{which, index, 0}; };
  l.choice_bias = loader.vector(name(weight::choice_bias), m.expert_count);
  l.router_bias = loader.vector(name(weight::router_bias), m.expert_count);
  l.gate_up_bias = loader.rows_beside(name(weight::gate_bias), name(weight::up_bias),
                                      m.expert_count, m.expert_ffn_size);
  l.down_bias = loader.rows(name(weight::down_bias), m.expert_count, m.hidden_size);
  if (m.shared_ffn_size == 0)
    return;
  const std::uint64_t hidden = m.hidden_size, ffn = m.shared_ffn_size;
  l.shared = {
      loader.layer_matrix({name(weight::shared_gate), name(weight::shared_up)}, 2 * ffn, hidden),
      loader.layer_matrix({name(weight::shared_down)}, hidden, ffn)};
  l.shared_score = loader.whole_matrix({name(weight::shared_score)}, 1, hidden);
}

layer_weights add_layer(weight_loader& loader, const plugin::decoder& m, std::uint32_t index) {
  const auto name = [&](weight which, std::uint32_t expert = 0) {
    return weight_name{which, index, expert};
  };
  const std::uint64_t hidden = m.hidden_size, size = m.head_size, query = m.head_count * size,
                      kv = m.kv_head_count * size;
  layer_weights l;
  l.attention_norm = loader.vector(name(weight::attention_norm), hidden);
  l.projection = loader.layer_matrix({name(weight::query), name(weight::key), name(weight::value)},
                                     query + 2 * kv, hidden);
  l.projection_bias = loader.vectors({{name(weight::query_bias), query},
                                      {name(weight::key_bias), kv},
                                      {name(weight::value_bias), kv}});
  const bool are_whole = m.head_norms == plugin::head_norm::whole_rows;
  l.query_norm = loader.vector(name(weight::query_norm), are_whole ? query : size);
  l.key_norm = loader.vector(name(weight::key_norm), are_whole ? kv : size);
  l.attention_out = loader.layer_matrix({name(weight::attention_out)}, hidden, query);
  l.attention_out_bias = loader.vector(name(weight::attention_out_bias), hidden);
  l.sinks = loader.vector(name(weight::sinks), m.head_count);
  l.post_attention_norm = loader.vector(name(weight::post_attention_norm), hidden);
  l.ffn_norm = loader.vector(name(weight::ffn_norm), hidden);
  l.router = loader.whole_matrix({name(weight::router)}, m.expert_count, hidden);
  const bool is_mixture = m.layers[index].is_mixture;
  const std::uint64_t ffn = is_mixture ? m.expert_ffn_size : m.ffn_size;
  for (std::uint32_t e = 0; e < (is_mixture ? m.expert_count : 1); ++e)
    l.ffn.push_back(
        {loader.layer_matrix({name(weight::gate, e), name(weight::up, e)}, 2 * ffn, hidden),
         loader.layer_matrix({name(weight::down, e)}, hidden, ffn)});
  l.post_ffn_norm = loader.vector(name(weight::post_ffn_norm), hidden);
  if (is_mixture)
    add_beside_experts(loader, m, index, l);
  const bool is_whole = (l.attention_norm != nullptr) == m.has_pre_norms && l.projection &&
                        l.attention_out &&
                        (l.ffn_norm != nullptr) == (m.has_pre_norms && !m.has_parallel_ffn) &&
                        bool(l.router) == is_mixture &&
                        bool(l.shared.down) == (is_mixture && m.shared_ffn_size > 0) &&
                        std::all_of(l.ffn.begin(), l.ffn.end(),
                                    [](const ffn_weights& f) { return f.gate_up && f.down; });
  if (!is_whole)
    throw refused(plugin::status::unsupported_model,
                  "layer " + std::to_string(index) + " of the stage lacks a weight");
  return l;
}

// Cosines and sines of all positions, computed in double.
void add_rope_tables(device& on, const plugin::decoder& m, std::uint32_t context,
                     stage_weights& out) {
  const std::size_t half = m.rotated_dimensions / 2;
  for (std::uint32_t which = 0; which < m.rotation_count; ++which) {
    const auto& [frequency, magnitude] = m.rotations[which];
    auto& to = out.rotations.emplace_back();
    if (half == 0)
      continue;
    std::vector<float> cosine(context * half), sine(context * half);
    for (std::size_t i = 0; i < cosine.size(); ++i) {
      const std::size_t position = i / half;
      const double angle = static_cast<double>(position) * frequency[i % half];
      cosine[i] = static_cast<float>(std::cos(angle) * double{magnitude});
      sine[i] = static_cast<float>(std::sin(angle) * double{magnitude});
    }
    const auto uploaded = [&](const std::vector<float>& values) {
      out.memory.push_back(on.take(values.size() * sizeof(float)));
      on.upload(out.memory.back().as<float>(), values.data(), values.size() * sizeof(float));
      return out.memory.back().as<const float>();
    };
    to = {uploaded(cosine), uploaded(sine)};
  }
}

} // namespace

stage_weights load_weights(device& on, const plugin::decoder& model, const plugin::settings& with,
                           const plugin::host& shard) {
  stage_weights out;
  weight_loader loader(on, with, shard, out.memory);
  if (model.embeds)
    out.embedding =
        loader.whole_matrix({{weight::embedding}}, model.vocabulary_size, model.hidden_size).values;
  if (model.heads) {
    out.head = loader.whole_matrix({{weight::head}}, model.logit_count, model.hidden_size);
    out.output_norm = loader.vector({weight::output_norm}, model.hidden_size);
  }
  if ((model.embeds && out.embedding == nullptr) ||
      (model.heads && (!out.head || out.output_norm == nullptr)))
    throw refused(plugin::status::unsupported_model, "the stage lacks its embedding or its head");
  for (std::uint32_t i = 0; i < model.layer_count; ++i)
    out.layers.push_back(add_layer(loader, model, i));
  loader.fill();
  add_rope_tables(on, model, with.max_model_len, out);
  return out;
}

} // namespace baton::gpu
