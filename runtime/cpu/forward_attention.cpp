// The parts of a step in which a row meets its sequence: queries, keys and values are finished and
// stored, then every query attends to the positions that its layer sees.
#include "runtime/cpu/forward.hpp"

#include <algorithm>

namespace baton::cpu {

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

void forward::append(share rows, std::uint32_t index) {
  const step_memory& m = p_.memory;
  const auto& model = p_.model;
  const layer_weights& layer = p_.weights.layers[index];
  const rope_table* rope = p_.ropes.of(p_.range.first + index);
  const std::size_t size = model.head_size;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::uint32_t position = rows_[r].position;
    if (layer.query_bias != nullptr) {
      p_.table.add(m.query.row(r), layer.query_bias, model.q_size());
      p_.table.add(m.key.row(r), layer.key_bias, model.kv_size());
      p_.table.add(m.value.row(r), layer.value_bias, model.kv_size());
    }
    finish_heads(m.query.row(r), model.head_count, layer.query_norm, rope, position);
    finish_heads(m.key.row(r), model.kv_head_count, layer.key_norm, rope, position);
    p_.table.scale(m.query.row(r), model.q_size(), model.attention_scale);
    const std::uint32_t block = rows_[r].owner->blocks[position / kv_block_positions];
    const std::size_t at = position % kv_block_positions;
    for (std::uint32_t h = 0; h < model.kv_head_count; ++h) {
      std::uint16_t* page = p_.kv.page(block, index, h);
      p_.table.store_f16(m.key.row(r) + h * size, size, page + at, kv_block_positions);
      p_.table.store_f16(m.value.row(r) + h * size, size,
                         page + size * kv_block_positions + at * size, 1);
    }
  }
}

// Normalises, then rotates, where the layer does so.
void forward::finish_heads(float* heads, std::size_t count, const float* gain,
                           const rope_table* rope, std::uint32_t position) const {
  const auto& model = p_.model;
  const std::size_t size = model.head_size;
  const auto rotate =
      model.rope.kind == model::rope_kind::normal ? p_.table.rope_pairs : p_.table.rope_halves;
  for (float* head = heads; head != heads + count * size; head += size) {
    if (gain != nullptr)
      p_.table.rms_norm(head, gain, size, model.rms_epsilon, head);
    if (rope != nullptr)
      rotate(head, model.rope.dimension_count, rope->cosine(position), rope->sine(position));
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
  const std::uint32_t window =
      p_.model.has_window(p_.range.first + layer) ? *p_.model.sliding_window : 0;
  const float soft_cap = p_.model.attention_soft_cap.value_or(0.0F);
  const std::uint32_t first = first_visible(rows_[item.first_row].position, window);
  const std::uint32_t last = rows_[item.first_row + item.rows - 1].position;
  auto& pages = pages_[member];
  for (std::uint32_t chunk = first / kv_block_positions; chunk <= last / kv_block_positions;
       ++chunk)
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
    p_.table.attend({query, positions, queries, pages.data(), size, out, window, soft_cap});
    done += queries;
  }
}

} // namespace baton::cpu
