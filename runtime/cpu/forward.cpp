// The parts of a step, in the order of forward.hpp.
#include "runtime/cpu/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace baton::cpu {

forward::forward(const forward_parts& parts, std::uint32_t context_max) : p_(parts) {
  const std::size_t chunks = context_max / kv_block_positions + 1;
  pages_.resize(p_.team.size());
  for (auto& pages : pages_)
    pages.resize(chunks);
}

void forward::run(const micro_batch& batch, std::span<const float> activations) {
  plan(batch);
  p_.team.run([&](unsigned member) { run_member(member, batch, activations); });
}

void forward::plan(const micro_batch& batch) {
  rows_.clear();
  items_.clear();
  sampling_rows_.clear();
  for (const slice& s : batch.slices) {
    plan_attention(s, static_cast<std::uint32_t>(rows_.size()));
    for (std::uint32_t i = 0; i < s.rows; ++i)
      rows_.push_back({&s, s.position + i});
    if (s.samples)
      sampling_rows_.push_back(rows_.size() - 1);
    p_.rope.extend_to(s.position + s.rows - 1);
  }
}

// As many rows as let all query heads of a kv head share one pass over its keys and values.
void forward::plan_attention(const slice& s, std::uint32_t first_row) {
  const std::uint32_t group = p_.model.head_count / p_.model.kv_head_count;
  const auto rows_max =
      std::max<std::uint32_t>(1, static_cast<std::uint32_t>(attend_queries_max) / group);
  for (std::uint32_t i = 0; i < s.rows;) {
    const std::uint32_t chunk_left = kv_block_positions - (s.position + i) % kv_block_positions;
    const std::uint32_t count = std::min({rows_max, s.rows - i, chunk_left});
    items_.push_back({first_row + i, count});
    i += count;
  }
}

forward::share forward::share_of(std::size_t count, unsigned member) const noexcept {
  return {count * member / p_.team.size(), count * (member + 1) / p_.team.size()};
}

void forward::run_member(unsigned member, const micro_batch& batch,
                         std::span<const float> activations) {
  embed(share_of(rows_.size(), member), batch, activations);
  for (std::uint32_t layer = 0; layer < p_.range.count; ++layer)
    run_layer(member, layer);
  if (!p_.range.heads)
    return;
  p_.team.barrier();
  head(member);
}

void forward::run_layer(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const step_memory& m = p_.memory;
  const std::size_t rows = rows_.size();
  const share own = share_of(rows, member);
  const auto needs_records = [](const packed_matrix& a) { return !a.is_float(); };
  // Norms read the rows that this member has embedded, or wait for the layer before.
  if (index > 0)
    p_.team.barrier();
  normalise(own.begin, own.end, layer.attention_norm,
            needs_records(layer.query) || needs_records(layer.key) || needs_records(layer.value));
  p_.team.barrier();
  project(member, layer);
  p_.team.barrier();
  append(own, index);
  p_.team.barrier();
  attend(member, index);
  p_.team.barrier();
  if (needs_records(layer.attention_out)) {
    for (std::size_t r = own.begin; r < own.end; ++r)
      p_.table.quantise[static_cast<std::size_t>(p_.width)](
          m.attended.values.row(r), layer.attention_out.blocks(), m.attended.record_row(r));
    p_.team.barrier();
  }
  const share out = share_of(layer.attention_out.panel_count(), member);
  multiply(layer.attention_out, m.attended, rows, out, m.hidden.from_column(out.begin * panel_rows),
           /*adds=*/true);
  p_.team.barrier();
  normalise(own.begin, own.end, layer.ffn_norm,
            needs_records(layer.gate) || needs_records(layer.up));
  p_.team.barrier();
  gate_and_up(member, layer);
  p_.team.barrier();
  const share down = share_of(layer.down.panel_count(), member);
  multiply(layer.down, m.gated, rows, down, m.hidden.from_column(down.begin * panel_rows),
           /*adds=*/true);
}

void forward::embed(share rows, const micro_batch& batch, std::span<const float> activations) {
  const std::size_t width = p_.model.hidden_size;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    if (p_.range.embeds)
      unpack_row(p_.weights.embedding, static_cast<std::size_t>(batch.tokens[r]),
                 p_.memory.hidden.row(r));
    else
      std::memcpy(p_.memory.hidden.row(r), activations.data() + r * width, width * sizeof(float));
  }
}

void forward::normalise(std::size_t from, std::size_t to, const float* gain, bool needs_records) {
  const step_memory& m = p_.memory;
  const std::size_t width = p_.model.hidden_size;
  for (std::size_t r = from; r < to; ++r) {
    p_.table.rms_norm(m.hidden.row(r), gain, width, p_.model.rms_epsilon, m.normed.values.row(r));
    if (needs_records)
      p_.table.quantise[static_cast<std::size_t>(p_.width)](
          m.normed.values.row(r), width / block_columns, m.normed.record_row(r));
  }
}

void forward::multiply(const packed_matrix& matrix, const input_rows& input, std::size_t rows,
                       share panels, float_rows out, bool adds) const {
  if (panels.begin == panels.end || rows == 0)
    return;
  matmul_args args;
  args.panels = matrix.panel(panels.begin);
  args.panel_count = panels.end - panels.begin;
  args.blocks = matrix.blocks();
  args.activations =
      matrix.is_float() ? reinterpret_cast<const std::byte*>(input.values.data) : input.records;
  args.activation_stride =
      matrix.is_float() ? input.values.stride * sizeof(float) : input.record_stride;
  args.rows = rows;
  args.out = out.data;
  args.out_stride = out.stride;
  args.adds = adds;
  p_.table.matmul[static_cast<std::size_t>(matrix.format)][static_cast<std::size_t>(p_.width)](
      args);
}

void forward::project(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const auto one = [&](const packed_matrix& matrix, const float_rows& out) {
    const share own = share_of(matrix.panel_count(), member);
    multiply(matrix, m.normed, rows_.size(), own, out.from_column(own.begin * panel_rows),
             /*adds=*/false);
  };
  one(layer.query, m.query);
  one(layer.key, m.key);
  one(layer.value, m.value);
}

void forward::append(share rows, std::uint32_t layer) {
  const step_memory& m = p_.memory;
  const auto& model = p_.model;
  const std::size_t size = model.head_size, rotated = model.rope.dimension_count;
  const auto rotate =
      model.rope.kind == model::rope_kind::normal ? p_.table.rope_pairs : p_.table.rope_halves;
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::uint32_t position = rows_[r].position;
    const float* cosine = p_.rope.cosine(position);
    const float* sine = p_.rope.sine(position);
    for (std::size_t h = 0; h < model.head_count; ++h)
      rotate(m.query.row(r) + h * size, rotated, cosine, sine);
    p_.table.scale(m.query.row(r), model.q_size(), factor);
    const std::uint32_t block = rows_[r].owner->blocks[position / kv_block_positions];
    const std::size_t at = position % kv_block_positions;
    for (std::uint32_t h = 0; h < model.kv_head_count; ++h) {
      float* key = m.key.row(r) + h * size;
      rotate(key, rotated, cosine, sine);
      std::uint16_t* page = p_.kv.page(block, layer, h);
      p_.table.store_f16(key, size, page + at, kv_block_positions);
      p_.table.store_f16(m.value.row(r) + h * size, size,
                         page + size * kv_block_positions + at * size, 1);
    }
  }
}

void forward::attend(unsigned member, std::uint32_t layer) {
  const std::uint32_t heads = p_.model.kv_head_count;
  const std::size_t count = items_.size() * heads;
  for (std::size_t i = member; i < count; i += p_.team.size())
    attend_item(member, layer, items_[i / heads], static_cast<std::uint32_t>(i % heads));
}

void forward::attend_item(unsigned member, std::uint32_t layer, const attention_item& item,
                          std::uint32_t kv_head) {
  const step_memory& m = p_.memory;
  const std::size_t size = p_.model.head_size;
  const std::uint32_t group = p_.model.head_count / p_.model.kv_head_count;
  const std::uint32_t last = rows_[item.first_row + item.rows - 1].position;
  auto& pages = pages_[member];
  for (std::uint32_t chunk = 0; chunk <= last / kv_block_positions; ++chunk)
    pages[chunk] = p_.kv.page(rows_[item.first_row].owner->blocks[chunk], layer, kv_head);
  // Rows outside, heads inside: positions ascend, as the kernel asks.
  const std::size_t count = std::size_t{item.rows} * group;
  const std::size_t passes = (count + attend_queries_max - 1) / attend_queries_max;
  for (std::size_t pass = 0, done = 0; pass < passes; ++pass) {
    const std::size_t queries = count / passes + (pass < count % passes ? 1 : 0);
    const float* query[attend_queries_max];
    float* out[attend_queries_max];
    std::uint32_t positions[attend_queries_max];
    for (std::size_t i = 0; i < queries; ++i) {
      const std::size_t r = item.first_row + (done + i) / group;
      const std::size_t offset = (kv_head * group + (done + i) % group) * size;
      query[i] = m.query.row(r) + offset;
      out[i] = m.attended.values.row(r) + offset;
      positions[i] = rows_[r].position;
    }
    p_.table.attend({query, positions, queries, pages.data(), size, out});
    done += queries;
  }
}

// A panel of 32 outputs is one activation block, so silu(gate) * up is quantised as it is made.
void forward::gate_and_up(unsigned member, const layer_weights& layer) {
  const step_memory& m = p_.memory;
  const auto& scratch = m.per_thread[member];
  const std::size_t block_bytes = activation_block_bytes(p_.width);
  const share panels = share_of(layer.gate.panel_count(), member);
  for (std::size_t panel = panels.begin; panel < panels.end; ++panel) {
    const share one{panel, panel + 1};
    multiply(layer.gate, m.normed, rows_.size(), one, scratch.gate, /*adds=*/false);
    multiply(layer.up, m.normed, rows_.size(), one, scratch.up, /*adds=*/false);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      float* out = m.gated.values.row(r) + panel * panel_rows;
      if (layer.down.is_float()) {
        p_.table.silu_multiply(scratch.gate.row(r), scratch.up.row(r), panel_rows, out);
        continue;
      }
      p_.table.silu_multiply(scratch.gate.row(r), scratch.up.row(r), panel_rows, scratch.up.row(r));
      p_.table.quantise[static_cast<std::size_t>(p_.width)](
          scratch.up.row(r), 1, m.gated.record_row(r) + panel * block_bytes);
    }
  }
}

void forward::head(unsigned member) {
  const step_memory& m = p_.memory;
  const packed_matrix& head = p_.weights.head;
  const share own = share_of(sampling_rows_.size(), member);
  for (std::size_t i = own.begin; i < own.end; ++i) {
    const float* hidden = m.hidden.row(sampling_rows_[i]);
    p_.table.rms_norm(hidden, p_.weights.output_norm, p_.model.hidden_size, p_.model.rms_epsilon,
                      m.normed.values.row(i));
    if (!head.is_float())
      p_.table.quantise[static_cast<std::size_t>(p_.width)](m.normed.values.row(i), head.blocks(),
                                                            m.normed.record_row(i));
  }
  p_.team.barrier();
  const share panels = share_of(head.panel_count(), member);
  multiply(head, m.normed, sampling_rows_.size(), panels,
           m.logits.from_column(panels.begin * panel_rows), /*adds=*/false);
}

} // namespace baton::cpu
