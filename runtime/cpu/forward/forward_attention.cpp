// Attention: finishes and stores queries, keys and values, then every query attends to the
// positions that are visible in its layer.
#include "runtime/cpu/forward/forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace baton::cpu {

// Items have so many rows that all query heads of a kv head share one pass over its KV.
void forward::plan_attention(const slice& s, std::uint32_t first_row) {
  const auto rows_max =
      std::max<std::uint32_t>(1, static_cast<std::uint32_t>(attend_queries_max) / query_heads_max_);
  for (std::uint32_t i = 0; i < s.rows;) {
    const std::uint32_t chunk_left = kv_block_positions - (s.position + i) % kv_block_positions;
    const std::uint32_t count = std::min({rows_max, s.rows - i, chunk_left});
    items_.push_back({first_row + i, count});
    i += count;
  }
}

// The columns of the queries of a KV head, and of their outputs.
forward::share forward::columns_of(std::uint32_t layer, std::uint32_t kv_head) const noexcept {
  const auto heads = p_.heads[p_.range.first + layer].of(kv_head);
  const std::size_t size = heads_of(layer).size;
  return {heads.first * size, heads.end() * size};
}

// Layers that share keys also share their pages.
std::byte* forward::page_of(std::uint32_t layer, std::uint32_t block, std::uint32_t kv_head) const {
  const std::size_t bytes = 2 * layout_of(p_.kv.format()).matrix_bytes(heads_of(layer).size);
  return p_.kv.page(block, memory_index(layer), kv_head, bytes);
}

void forward::append(share rows, std::uint32_t index, share kv_heads) {
  const step_memory& m = p_.memory;
  const auto& model = p_.model;
  const layer_weights& layer = p_.weights.layers[index];
  const rope_table* rope = p_.ropes.of(p_.range.first + index);
  const auto& traits = model.layers[p_.range.first + index];
  const std::size_t size = heads_of(index).size, heads = kv_heads.end - kv_heads.begin;
  const std::size_t key_at = kv_heads.begin * size;
  const share query_columns{columns_of(index, static_cast<std::uint32_t>(kv_heads.begin)).begin,
                            columns_of(index, static_cast<std::uint32_t>(kv_heads.end - 1)).end};
  const std::size_t width = query_columns.end - query_columns.begin;
  const auto append_kv = p_.table.append_kv[static_cast<std::size_t>(p_.kv.format())];
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::uint32_t position = rows_[r].position;
    float* query = m.query.row(r) + query_columns.begin;
    float* key = m.key.row(r) + key_at;
    float* value = m.value.row(r) + key_at;
    if (layer.query_bias != nullptr) {
      p_.table.add(query, layer.query_bias + query_columns.begin, width);
      p_.table.add(key, layer.key_bias + key_at, heads * size);
      p_.table.add(value, layer.value_bias + key_at, heads * size);
    }
    finish_heads(query, width / size, size, layer.query_norm, rope, position);
    p_.table.scale(query, width, query_scale(index, position));
    if (traits.kv_layer)
      continue;
    if (traits.has_keys_as_values)
      std::memcpy(value, key, heads * size * sizeof(float));
    finish_heads(key, heads, size, layer.key_norm, rope, position);
    for (std::size_t h = 0; h < heads && model.has_value_norm; ++h)
      p_.table.rms_norm(value + h * size, m.value_gain, size, model.rms_epsilon, value + h * size);
    const std::uint32_t block = rows_[r].owner->blocks[position / kv_block_positions];
    const std::size_t at = position % kv_block_positions;
    for (std::size_t h = kv_heads.begin; h < kv_heads.end; ++h) {
      std::byte* page = page_of(index, block, static_cast<std::uint32_t>(h));
      append_kv(m.key.row(r) + h * size, m.value.row(r) + h * size, size, page, at);
    }
  }
}

// Rotates the first dimensions of a head, if the layer has a rotation.
void forward::rotate(float* head, const rope_table* rope, std::uint32_t position) const {
  if (rope == nullptr)
    return;
  const bool is_paired = rope->rope().kind == model::rope_kind::normal;
  const auto rotate = is_paired ? p_.table.rope_pairs : p_.table.rope_halves;
  rotate(head, rope->rope().dimension_count, rope->cosine(position), rope->sine(position));
}

// Normalises and rotates heads, if the layer does so.
void forward::finish_heads(float* heads, std::size_t count, std::size_t size, const float* gain,
                           const rope_table* rope, std::uint32_t position) const {
  const auto& model = p_.model;
  const bool is_normed_first = model.qk_norm == model::qk_norm_kind::heads;
  const bool is_normed_last = model.qk_norm == model::qk_norm_kind::rotated_heads;
  for (float* head = heads; head != heads + count * size; head += size) {
    if (is_normed_first)
      p_.table.rms_norm(head, gain, size, model.rms_epsilon, head);
    rotate(head, rope, position);
    if (is_normed_last)
      p_.table.rms_norm(head, gain, size, model.rms_epsilon, head);
  }
}

// Norms of all heads of a row together, which need the projections of every member.
void forward::normalise_projections(share rows, std::uint32_t index) {
  const auto& model = p_.model;
  const layer_weights& layer = p_.weights.layers[index];
  const std::uint32_t own = p_.range.first + index;
  for (std::size_t r = rows.begin; r < rows.end; ++r)
    for (const auto& [values, gain, width] :
         {std::tuple(p_.memory.query.row(r), layer.query_norm, model.q_size(own)),
          {p_.memory.key.row(r), layer.key_norm, model.kv_size(own)}})
      p_.table.rms_norm(values, gain, width, model.rms_epsilon, values);
}

float forward::query_scale(std::uint32_t layer, std::uint32_t position) const noexcept {
  const auto& model = p_.model;
  if (!model.layers[p_.range.first + layer].grows_queries)
    return model.attention_scale;
  const auto& growth = model.query_growth;
  const double steps = std::floor((position + double{growth.offset}) / growth.length);
  return static_cast<float>(double{model.attention_scale} *
                            (1.0 + double{growth.weight} * std::log1p(steps)));
}

// All queries of latent attention have one KV head: each member takes some of them.
std::size_t forward::parts_of_kv_head() const noexcept {
  const std::size_t parts_max = query_heads_max_ / attend_queries_max;
  return p_.model.latent ? std::clamp<std::size_t>(parts_max, 1, p_.team.size()) : 1;
}

void forward::attend(unsigned member, std::uint32_t layer) {
  const std::size_t heads = heads_of(layer).kv_count, parts = parts_of_kv_head();
  const std::size_t count = items_.size() * heads * parts;
  const auto item_of = [&](std::size_t i) { return items_[i / parts / heads]; };
  const auto head_of = [&](std::size_t i) { return static_cast<std::uint32_t>(i / parts % heads); };
  for (std::size_t i = member; i < count; i += p_.team.size()) {
    const std::byte* next_page = nullptr;
    if (const std::size_t next = i + p_.team.size(); next < count) {
      next_page = first_page(layer, item_of(next), head_of(next));
      if (appends_within_)
        prefetch_append_lines(layer, item_of(next), head_of(next));
    }
    const auto columns = columns_of(layer, head_of(i));
    const std::size_t size = heads_of(layer).size, part = i % parts;
    const std::size_t queries = (columns.end - columns.begin) / size;
    attend_item(member, layer, item_of(i), head_of(i),
                {columns.begin + queries * part / parts * size,
                 columns.begin + queries * (part + 1) / parts * size},
                next_page);
  }
}

const std::byte* forward::first_page(std::uint32_t layer, const attention_item& item,
                                     std::uint32_t kv_head) const {
  const auto& of = rows_[item.first_row];
  const auto first = first_visible(of.position, window_of(layer));
  return page_of(layer, of.owner->blocks[first / kv_block_positions], kv_head);
}

// The item's last key is written to one cache line per dimension.
void forward::prefetch_append_lines(std::uint32_t layer, const attention_item& item,
                                    std::uint32_t kv_head) const {
  const auto& of = rows_[item.first_row + item.rows - 1];
  const auto layout = layout_of(p_.kv.format());
  const std::byte* first_line =
      page_of(layer, of.owner->blocks[of.position / kv_block_positions], kv_head) +
      of.position % kv_block_positions * layout.element_bytes;
  const std::uint32_t size = heads_of(layer).size;
  for (std::uint32_t i = 0; i < size; ++i)
    __builtin_prefetch(first_line + i * kv_block_positions * layout.element_bytes, /*rw=*/1);
}

std::uint32_t forward::window_of(std::uint32_t layer) const noexcept {
  return p_.model.layers[p_.range.first + layer].window;
}

// `columns` are those of the queries: all that the KV head has, or a part.
void forward::attend_item(unsigned member, std::uint32_t layer, const attention_item& item,
                          std::uint32_t kv_head, share columns, const std::byte* next_page) {
  const step_memory& m = p_.memory;
  const std::size_t size = heads_of(layer).size;
  const std::size_t query_heads = (columns.end - columns.begin) / size;
  const layer_weights& of_layer = p_.weights.layers[layer];
  const std::uint32_t window = window_of(layer);
  const float soft_cap = p_.model.attention_soft_cap.value_or(0.0F);
  if (appends_within_)
    append({item.first_row, item.first_row + item.rows}, layer, {kv_head, kv_head + 1U});
  const std::uint32_t first = first_visible(rows_[item.first_row].position, window);
  const std::uint32_t last = rows_[item.first_row + item.rows - 1].position;
  auto& pages = pages_[member];
  for (std::uint32_t chunk = first / kv_block_positions; chunk <= last / kv_block_positions;
       ++chunk)
    pages[chunk] = page_of(layer, rows_[item.first_row].owner->blocks[chunk], kv_head);
  const auto attend_kv = p_.table.attend[static_cast<std::size_t>(p_.kv.format())];
  // Rows are the outer loop, heads the inner: the kernel requires ascending positions.
  const std::size_t count = item.rows * query_heads;
  const std::size_t passes = (count + attend_queries_max - 1) / attend_queries_max;
  for (std::size_t pass = 0, done = 0; pass < passes; ++pass) {
    const std::size_t queries = count / passes + (pass < count % passes ? 1 : 0);
    const float* query[attend_queries_max];
    float* out[attend_queries_max];
    std::uint32_t positions[attend_queries_max];
    float sinks[attend_queries_max];
    for (std::size_t i = 0; i < queries; ++i) {
      const std::size_t r = item.first_row + (done + i) / query_heads;
      const std::size_t offset = columns.begin + (done + i) % query_heads * size;
      query[i] = m.query.row(r) + offset;
      out[i] = m.attended.values.row(r) + offset;
      positions[i] = rows_[r].position;
      sinks[i] = of_layer.sinks != nullptr ? of_layer.sinks[offset / size] : 0.0F;
    }
    const auto* then = pass + 1 < passes ? pages[first / kv_block_positions] : next_page;
    attend_kv({.queries = query,
               .positions = positions,
               .count = queries,
               .pages = pages.data(),
               .next_page = then,
               .head_size = size,
               .out = out,
               .window = window,
               .soft_cap = soft_cap,
               .sinks = of_layer.sinks != nullptr ? sinks : nullptr});
    done += queries;
  }
  if (of_layer.attention_gate.rows > 0)
    for (std::size_t r = item.first_row; r < item.first_row + item.rows; ++r)
      p_.table.sigmoid_multiply(m.attended.values.row(r) + columns.begin,
                                m.attention_gate.row(r) + columns.begin,
                                columns.end - columns.begin);
  if (quantises_within(layer))
    quantise_attended({item.first_row, item.first_row + item.rows}, columns.begin,
                      columns.end - columns.begin);
}

bool forward::quantises_within(std::uint32_t layer) const noexcept {
  return !p_.weights.layers[layer].attention_out.is_float() && has_whole_blocks_[layer];
}

// Quantises columns [from, from + width) of the attention output for the next product.
void forward::quantise_attended(share rows, std::size_t from, std::size_t width) {
  const auto& attended = p_.memory.attended;
  const std::size_t record_at = from / block_columns * activation_block_bytes(p_.width);
  for (std::size_t r = rows.begin; r < rows.end; ++r)
    p_.table.quantise[static_cast<std::size_t>(p_.width)](
        attended.values.row(r) + from, width / block_columns, attended.record_row(r) + record_at);
}

} // namespace baton::cpu
