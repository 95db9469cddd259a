// The forward pass of arXiv 2302.13971, one position and one head after the other.
#include "tests/support/reference_llama.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace baton::testing {
namespace {

using row = std::vector<float>;

struct matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;

  row times(const row& x) const {
    row out(rows);
    for (std::size_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < columns; ++k)
        sum += double{values[n * columns + k]} * double{x[k]};
      out[n] = static_cast<float>(sum);
    }
    return out;
  }
  // The `count` rows from row `first`.
  matrix part(std::size_t first, std::size_t count) const {
    const auto* begin = values.data() + first * columns;
    return {count, columns, {begin, begin + count * columns}};
  }
  row at(std::size_t n) const {
    const auto* begin = values.data() + n * columns;
    return {begin, begin + columns};
  }
};

matrix read(const model::gguf_file& file, const std::string& name) {
  const auto tensor = file.find(name);
  ENSURE(tensor, "no tensor {}", name);
  matrix m{tensor->rows(), tensor->columns(), std::vector<float>(tensor->elements())};
  for (std::size_t n = 0; n < m.rows; ++n)
    model::dequantize_row(tensor->type, tensor->row(n).data(), m.values.data() + n * m.columns,
                          m.columns);
  return m;
}

row norm(const row& x, const matrix& gain, float epsilon) {
  double squares = 0;
  for (const float v : x)
    squares += double{v} * double{v};
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + double{epsilon});
  row out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = static_cast<float>(double{x[i]} * scale * double{gain.values[i]});
  return out;
}

void rotate(float* head, const model::rope_description& rope, std::size_t position) {
  const std::size_t n = rope.dimension_count;
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double angle =
        static_cast<double>(position) *
        std::pow(double{rope.base}, -2.0 * static_cast<double>(i) / static_cast<double>(n));
    const bool is_paired = rope.kind == model::rope_kind::normal;
    float& a = head[is_paired ? 2 * i : i];
    float& b = head[is_paired ? 2 * i + 1 : i + n / 2];
    const double x = double{a}, y = double{b};
    a = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    b = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
  }
}

void add(row& x, const row& y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] += y[i];
}

// Attention of the last position: queries [heads * size] over keys and values [position][kv_heads *
// size].
row attend(const model::description& m, const row& query, const std::vector<row>& keys,
           const std::vector<row>& values) {
  const std::size_t size = m.head_size, group = m.head_count / m.kv_head_count;
  row out(query.size());
  for (std::size_t h = 0; h < m.head_count; ++h) {
    std::vector<double> weights(keys.size());
    double sum = 0, most = -INFINITY;
    for (std::size_t p = 0; p < keys.size(); ++p) {
      for (std::size_t d = 0; d < size; ++d)
        weights[p] += double{query[h * size + d]} * double{keys[p][h / group * size + d]};
      weights[p] /= std::sqrt(static_cast<double>(size));
      most = std::max(most, weights[p]);
    }
    for (double& w : weights)
      sum += w = std::exp(w - most);
    for (std::size_t d = 0; d < size; ++d) {
      double value = 0;
      for (std::size_t p = 0; p < keys.size(); ++p)
        value += weights[p] / sum * double{values[p][h / group * size + d]};
      out[h * size + d] = static_cast<float>(value);
    }
  }
  return out;
}

row through_ffn(const row& x, const matrix& gate, const matrix& up, const matrix& down) {
  row gated = gate.times(x);
  const row upper = up.times(x);
  for (std::size_t i = 0; i < gated.size(); ++i)
    gated[i] = static_cast<float>(double{gated[i]} / (1.0 + std::exp(-double{gated[i]})) *
                                  double{upper[i]});
  return down.times(gated);
}

// The experts of highest score, by softmax of theirs alone (arXiv 2401.04088).
row through_experts(const model::description& m, const row& x, const matrix& router,
                    const matrix& gate, const matrix& up, const matrix& down) {
  const row scores = router.times(x);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t e) { return scores[e]; });
  order.resize(m.expert_used_count);
  double sum = 0;
  for (const std::size_t e : order)
    sum += std::exp(double{scores[e]});
  row out(x.size());
  for (const std::size_t e : order) {
    const std::size_t width = m.expert_ffn_size;
    const row given = through_ffn(x, gate.part(e * width, width), up.part(e * width, width),
                                  down.part(e * m.hidden_size, m.hidden_size));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += static_cast<float>(std::exp(double{scores[e]}) / sum * double{given[i]});
  }
  return out;
}

void run_layer(const model::gguf_file& file, const model::description& m, std::uint32_t layer,
               std::vector<row>& hidden) {
  const auto get = [&](const char* role) {
    return read(file, model::layer_tensor_name(layer, role));
  };
  const matrix attention_norm = get("attn_norm.weight"), ffn_norm = get("ffn_norm.weight");
  const matrix q = get("attn_q.weight"), k = get("attn_k.weight"), v = get("attn_v.weight");
  const matrix o = get("attn_output.weight");
  const bool is_mixture = m.expert_count > 0;
  const matrix router = is_mixture ? get("ffn_gate_inp.weight") : matrix{};
  const matrix gate = get(is_mixture ? "ffn_gate_exps.weight" : "ffn_gate.weight");
  const matrix up = get(is_mixture ? "ffn_up_exps.weight" : "ffn_up.weight");
  const matrix down = get(is_mixture ? "ffn_down_exps.weight" : "ffn_down.weight");
  std::vector<row> keys, values;
  for (std::size_t p = 0; p < hidden.size(); ++p) {
    const row x = norm(hidden[p], attention_norm, m.rms_epsilon);
    row query = q.times(x);
    keys.push_back(k.times(x));
    values.push_back(v.times(x));
    for (std::size_t h = 0; h < m.head_count; ++h)
      rotate(query.data() + h * m.head_size, m.ropes.front(), p);
    for (std::size_t h = 0; h < m.kv_head_count; ++h)
      rotate(keys.back().data() + h * m.head_size, m.ropes.front(), p);
    add(hidden[p], o.times(attend(m, query, keys, values)));
    const row y = norm(hidden[p], ffn_norm, m.rms_epsilon);
    add(hidden[p], is_mixture ? through_experts(m, y, router, gate, up, down)
                              : through_ffn(y, gate, up, down));
  }
}

} // namespace

std::vector<std::vector<float>> reference_hidden(const model::gguf_file& file,
                                                 const model::description& model,
                                                 const std::vector<std::int32_t>& tokens) {
  const matrix embedding = read(file, "token_embd.weight");
  std::vector<row> hidden;
  for (const auto token : tokens)
    hidden.push_back(embedding.at(static_cast<std::size_t>(token)));
  for (std::uint32_t layer = 0; layer < model.layer_count; ++layer)
    run_layer(file, model, layer, hidden);
  const matrix gain = read(file, "output_norm.weight");
  for (row& x : hidden)
    x = norm(x, gain, model.rms_epsilon);
  return hidden;
}

std::vector<std::vector<float>> reference_logits(const model::gguf_file& file,
                                                 const model::description& model,
                                                 const std::vector<std::int32_t>& tokens) {
  auto rows = reference_hidden(file, model, tokens);
  const matrix head = read(file, model.has_tied_embeddings ? "token_embd.weight" : "output.weight");
  for (row& x : rows)
    x = head.times(x);
  return rows;
}

} // namespace baton::testing
