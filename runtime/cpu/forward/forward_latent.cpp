// Latent attention (arXiv 2405.04434, section 2.1), with the projections of keys and values applied
// to queries and to what was attended. All heads then attend to the latents as one KV head does,
// and no keys or values of heads are computed. A member has some rows, or some panels of all heads.
#include "runtime/cpu/forward/forward.hpp"

#include <algorithm>
#include <cstring>

namespace baton::cpu {

void forward::run_latent(unsigned member, std::uint32_t index) {
  const layer_weights& layer = p_.weights.layers[index];
  const latent_weights& latent = layer.latent;
  const auto& sizes = *p_.model.latent;
  const auto& m = p_.memory;
  const std::size_t key_size = heads_of(index).size;
  const share own = share_of(rows_.size(), member);
  const bool has_query_latents = latent.query_norm != nullptr;
  project(member, layer.query, has_query_latents ? m.latent.query.values : m.latent.heads.values);
  project(member, layer.key, m.key);
  p_.team.barrier();
  if (has_query_latents)
    project_queries(member, latent);
  finish_queries(own, index);
  append_latents(own, index);
  p_.team.barrier();
  multiply_heads(member, latent.onto_latents, m.latent.heads, sizes.query_size(),
                 m.query.from_column(sizes.rotated_size), key_size);
  p_.team.barrier();
  attend(member, index);
  p_.team.barrier();
  if (!latent.values.front().is_float()) {
    quantise_heads(own, m.attended, key_size, sizes.kv_rank);
    p_.team.barrier();
  }
  multiply_heads(member, latent.values, m.attended, key_size, m.latent.values.values,
                 sizes.value_size);
  p_.team.barrier();
  if (!layer.attention_out.is_float()) {
    quantise_heads(own, m.latent.values, sizes.value_size, sizes.value_size);
    p_.team.barrier();
  }
  add_to_residual(member, layer.attention_out, m.latent.values,
                  {nullptr, layer.post_attention_norm});
}

// Queries come from latents of their own, normalised.
void forward::project_queries(unsigned member, const latent_weights& weights) {
  const input_rows& input = p_.memory.latent.query;
  const std::size_t rank = p_.model.latent->query_rank;
  const share own = share_of(rows_.size(), member);
  for (std::size_t r = own.begin; r < own.end; ++r) {
    float* values = input.values.row(r);
    p_.table.rms_norm(values, weights.query_norm, rank, p_.model.rms_epsilon, values);
    if (!weights.query.is_float())
      p_.table.quantise[static_cast<std::size_t>(p_.width)](values, rank / block_columns,
                                                            input.record_row(r));
  }
  p_.team.barrier();
  project(member, weights.query, input, p_.memory.latent.heads.values);
  p_.team.barrier();
}

// A head's query is its plain part, which a matrix projects onto latents, and its rotated part,
// which comes first in the query of the attention.
void forward::finish_queries(share rows, std::uint32_t index) {
  const auto& sizes = *p_.model.latent;
  const auto& m = p_.memory;
  const rope_table* rope = p_.ropes.of(p_.range.first + index);
  const std::size_t query_size = sizes.query_size(), key_size = heads_of(index).size;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::uint32_t position = rows_[r].position;
    float* queries = m.latent.heads.values.row(r);
    p_.table.scale(queries, p_.model.head_count * query_size, query_scale(index, position));
    for (std::size_t head = 0; head < p_.model.head_count; ++head) {
      float* rotated = queries + head * query_size + sizes.plain_size;
      rotate(rotated, rope, position);
      std::memcpy(m.query.row(r) + head * key_size, rotated, sizes.rotated_size * sizeof(float));
    }
  }
  if (!p_.weights.layers[index].latent.onto_latents.front().is_float())
    quantise_heads(rows, m.latent.heads, query_size, sizes.plain_size);
}

// A row's projection is the latent and then the rotated dimensions of its key.
void forward::append_latents(share rows, std::uint32_t index) {
  const auto& sizes = *p_.model.latent;
  const rope_table* rope = p_.ropes.of(p_.range.first + index);
  const auto append_kv = p_.table.append_kv[static_cast<std::size_t>(p_.kv.format())];
  const std::size_t key_size = heads_of(index).size, rank = sizes.kv_rank;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::uint32_t position = rows_[r].position;
    float *key = p_.memory.key.row(r), *value = p_.memory.value.row(r);
    p_.table.rms_norm(key, p_.weights.layers[index].latent.kv_norm, rank, p_.model.rms_epsilon,
                      value);
    std::fill_n(value + rank, sizes.rotated_size, 0.0F);
    std::memmove(key, key + rank, sizes.rotated_size * sizeof(float));
    rotate(key, rope, position);
    std::memcpy(key + sizes.rotated_size, value, rank * sizeof(float));
    const std::uint32_t block = rows_[r].owner->blocks[position / kv_block_positions];
    append_kv(key, value, key_size, page_of(index, block, 0), position % kv_block_positions);
  }
}

// out[head] = matrix[head] * input[head] for all rows, where heads are `apart` columns apart.
void forward::multiply_heads(unsigned member, const std::vector<packed_matrix>& matrices,
                             const input_rows& input, std::size_t apart, const float_rows& out,
                             std::size_t out_apart) const {
  const std::size_t panels = matrices.front().panel_count(); // of every head
  const std::size_t record_bytes = matrices.front().blocks() * activation_block_bytes(p_.width);
  const share own = share_of(matrices.size() * panels, member);
  for (std::size_t head = own.begin / panels; head * panels < own.end; ++head) {
    const std::size_t first = head * panels;
    const share part{std::max(own.begin, first) - first, std::min(own.end, first + panels) - first};
    const input_rows of_head{input.values.from_column(head * apart),
                             input.records + head * record_bytes, input.record_stride};
    multiply(member, matrices[head], of_head, rows_.size(), part,
             out.from_column(head * out_apart + part.begin * panel_rows), /*adds=*/false);
  }
}

// Quantises the first `width` columns of every head. Heads are `apart` columns apart, and their
// records follow one another.
void forward::quantise_heads(share rows, const input_rows& of, std::size_t apart,
                             std::size_t width) {
  const std::size_t blocks = width / block_columns;
  for (std::size_t r = rows.begin; r < rows.end; ++r)
    for (std::size_t head = 0; head < p_.model.head_count; ++head)
      p_.table.quantise[static_cast<std::size_t>(p_.width)](
          of.values.row(r) + head * apart, blocks,
          of.record_row(r) + head * blocks * activation_block_bytes(p_.width));
}

} // namespace baton::cpu
