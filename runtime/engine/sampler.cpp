#include "runtime/engine/sampler.hpp"

#include "runtime/engine/philox.hpp"
#include "runtime/engine/prompt_scores.hpp"
#include "runtime/engine/watermark.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

namespace baton::engine {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
// Weights per partial sum: a draw walks the sums, then one run of weights.
constexpr std::size_t run_length = 256;
// Up to this k a heap is faster than selecting among all entries.
constexpr std::size_t heap_top_k_max = 256;

// Four floats in one register of every x86-64 and AArch64 CPU. Explicit, because gcc does not
// vectorise the plain loop at -O2; a draw from 49152 logits took three times as long.
typedef float floats __attribute__((vector_size(16)));
typedef std::int32_t ints __attribute__((vector_size(16)));
constexpr std::size_t lanes = 4;

// e^x for x <= 0 within 2 ulp (Cephes' expf polynomial), 0 below -87. Plain arithmetic instead of
// libm, so every CPU gives the same bits.
inline floats exp_negative(floats x) noexcept {
  const ints is_tiny = x < -87.0f;
  const floats clamped = is_tiny ? floats{} - 87.0f : x;
  constexpr float round_to_integer = 12582912.0f; // 1.5 * 2^23, whose bits are 0x4B400000
  const floats shifted = clamped * 1.44269504f + round_to_integer;
  const floats n = shifted - round_to_integer;
  const floats r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f; // ln 2 in two parts
  floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const ints exponent = (std::bit_cast<ints>(shifted) - 0x4B400000 + 127) << 23;
  return is_tiny ? floats{} : p * std::bit_cast<floats>(exponent);
}

inline float exp_negative(float x) noexcept {
  return exp_negative(floats{x, 0, 0, 0})[0];
}

inline floats load(const float* from) noexcept {
  floats f;
  std::memcpy(&f, from, sizeof f);
  return f;
}

struct summary {
  float max = minus_infinity;
  bool is_sound = true; // no NaN, no +infinity, something above -infinity
};

summary summarize(std::span<const float> logits) noexcept {
  floats highest = floats{} + minus_infinity;
  ints is_sound = ints{} - 1;
  std::size_t i = 0;
  const auto look = [&](floats x) {
    is_sound &= x <= std::numeric_limits<float>::max(); // false for NaN
    highest = highest < x ? x : highest;
  };
  for (; i + lanes <= logits.size(); i += lanes)
    look(load(logits.data() + i));
  for (; i < logits.size(); ++i)
    look(floats{} + logits[i]);
  summary s;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    s.max = std::max(s.max, static_cast<float>(highest[lane]));
    s.is_sound = s.is_sound && is_sound[lane] != 0;
  }
  s.is_sound = s.is_sound && s.max > minus_infinity;
  return s;
}

// sums[j] is the sum of weights over run j, in a fixed order. Returns the total.
double sum_runs(std::span<const float> weights, std::vector<double>& sums) {
  sums.resize((weights.size() + run_length - 1) / run_length);
  double total = 0;
  for (std::size_t run = 0; run < sums.size(); ++run) {
    const float* w = weights.data() + run * run_length;
    const std::size_t count = std::min(run_length, weights.size() - run * run_length);
    floats partial{};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      partial += load(w + i);
    double sum = 0;
    for (; i < count; ++i)
      sum += static_cast<double>(w[i]);
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sum += static_cast<double>(partial[lane]);
    sums[run] = sum;
    total += sum;
  }
  return total;
}

// weights[i] = exp((logits[i] - max) / temperature).
void exponentiate(std::span<const float> logits, float max, float temperature,
                  std::vector<float>& weights) {
  weights.resize(logits.size());
  std::size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes) {
    const floats w = exp_negative((load(logits.data() + i) - max) / temperature);
    std::memcpy(weights.data() + i, &w, sizeof w);
  }
  for (; i < logits.size(); ++i)
    weights[i] = exp_negative((logits[i] - max) / temperature);
}

bool likelier(const weighted_token& a, const weighted_token& b) noexcept {
  return a.value != b.value ? a.value > b.value : a.token < b.token;
}

// The k most likely, most likely first; skips -infinity.
void select_top(std::span<const float> values, std::size_t k, std::vector<weighted_token>& out) {
  out.clear();
  const bool by_heap = k <= heap_top_k_max;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const weighted_token entry{values[i], static_cast<token_id>(i)};
    if (entry.value == minus_infinity)
      continue;
    if (!by_heap || out.size() < k) {
      out.push_back(entry);
      if (by_heap)
        std::push_heap(out.begin(), out.end(), likelier);
    } else if (entry.value > out.front().value) { // equal values: the earlier id stays
      std::pop_heap(out.begin(), out.end(), likelier);
      out.back() = entry;
      std::push_heap(out.begin(), out.end(), likelier);
    }
  }
  if (out.size() > k) {
    std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k), out.end(),
                     likelier);
    out.resize(k);
  }
  std::sort(out.begin(), out.end(), likelier);
}

constexpr std::size_t mask_bits = 64; // bits per mask element

// Whether any allowed token is not banned. If not, the answer may end before min_tokens.
bool leaves_any(token_mask mask, const std::vector<token_id>& banned) {
  std::size_t allowed = 0;
  for (const std::uint64_t word : mask)
    allowed += static_cast<std::size_t>(std::popcount(word));
  if (allowed > banned.size())
    return true;
  std::vector<token_id> both;
  for (const token_id id : banned) {
    const auto at = static_cast<std::size_t>(id);
    if (at / mask_bits < mask.size() && (mask[at / mask_bits] >> at % mask_bits & 1) != 0)
      both.push_back(id);
  }
  std::sort(both.begin(), both.end());
  return allowed > static_cast<std::size_t>(std::unique(both.begin(), both.end()) - both.begin());
}

void apply_mask(std::span<float> logits, token_mask mask) {
  const std::size_t words = std::min(mask.size(), logits.size() / mask_bits);
  for (std::size_t w = 0; w < words; ++w) {
    const std::uint64_t word = mask[w];
    if (word == ~std::uint64_t{0})
      continue;
    float* x = logits.data() + w * mask_bits;
    if (word == 0)
      std::fill_n(x, mask_bits, minus_infinity);
    else
      for (std::size_t bit = 0; bit < mask_bits; ++bit)
        x[bit] = (word >> bit & 1) != 0 ? x[bit] : minus_infinity;
  }
  for (std::size_t i = words * mask_bits; i < logits.size(); ++i)
    if (i / mask_bits >= mask.size() || (mask[i / mask_bits] >> i % mask_bits & 1) == 0)
      logits[i] = minus_infinity;
}

void apply_watermark(std::span<float> logits, const draw& d) {
  const green_list greens(d.previous, d.sampling.watermark_gamma);
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (greens.contains(static_cast<token_id>(i)))
      logits[i] += d.sampling.watermark_delta;
}

void apply_penalties(std::span<float> logits, const draw& d, token_mask mask) {
  const auto& s = d.sampling;
  if (s.has_watermark())
    apply_watermark(logits, d);
  for (const auto& b : s.biases)
    logits[static_cast<std::size_t>(b.token)] += b.bias;
  if (mask.empty() || d.banned.empty() || leaves_any(mask, d.banned))
    for (const token_id id : d.banned)
      logits[static_cast<std::size_t>(id)] = minus_infinity;
  if (!mask.empty())
    apply_mask(logits, mask);
  for (const auto& h : d.history) {
    float& x = logits[static_cast<std::size_t>(h.token)];
    if (h.in_prompt + h.in_output > 0)
      x = x > 0 ? x / s.repetition_penalty : x * s.repetition_penalty;
    if (h.in_output > 0)
      x = x - s.frequency_penalty * static_cast<float>(h.in_output) - s.presence_penalty;
  }
}

// The first index at which the running sum exceeds the target; skips entries of weight 0.
template <class WeightOf>
std::size_t walk(std::size_t count, double target, WeightOf weight_of) {
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = weight_of(i);
    if (w <= 0)
      continue;
    last = i;
    sum += w;
    if (sum > target)
      return i;
  }
  return last; // rounding: the target was the total
}

// Weights are in (0, 1], so the upper bits of their floats order them: 16 buckets per octave.
constexpr std::size_t buckets = (0x3F800000u >> 19) + 1;
std::size_t bucket_of(float weight) noexcept {
  return std::bit_cast<std::uint32_t>(weight) >> 19;
}

// Sets weights outside the nucleus to 0. Sorts only the bucket in which the sum reaches top_p.
void keep_nucleus(std::vector<float>& weights, double target, sampler_scratch& scratch) {
  scratch.sums.assign(buckets, 0);
  for (const float w : weights)
    scratch.sums[bucket_of(w)] += static_cast<double>(w);
  double sum = 0;
  std::size_t border = buckets - 1;
  while (border > 0 && sum + scratch.sums[border] < target)
    sum += scratch.sums[border--];

  auto& at_border = scratch.candidates;
  at_border.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t bucket = bucket_of(weights[i]);
    if (bucket == border)
      at_border.push_back({weights[i], static_cast<token_id>(i)});
    if (bucket <= border)
      weights[i] = 0;
  }
  std::sort(at_border.begin(), at_border.end(), likelier);
  for (const auto& c : at_border) {
    if (sum >= target)
      break;
    sum += static_cast<double>(c.value);
    weights[static_cast<std::size_t>(c.token)] = c.value;
  }
}

// Keeps the entries (tokens with their weights) that typical_p selects, in order. A token's
// surprisal is log(total) - x with x = (logit - max) / temperature. The entropy is log(total) -
// mean(x). Their distance is |x - mean(x)|, so no logarithm is needed.
void keep_typical(std::vector<weighted_token>& entries, std::span<const float> logits,
                  const draw& d, float max, sampler_scratch& scratch) {
  const auto x_of = [&](const weighted_token& e) {
    return static_cast<double>((logits[static_cast<std::size_t>(e.token)] - max) /
                               d.sampling.temperature);
  };
  double total = 0, mean = 0;
  for (const auto& e : entries) {
    total += static_cast<double>(e.value);
    mean += e.value > 0 ? static_cast<double>(e.value) * x_of(e) : 0; // x may be -infinity there
  }
  mean /= total;
  auto& nearest = scratch.distances; // a heap
  nearest.clear();
  for (std::uint32_t i = 0; i < entries.size(); ++i)
    nearest.emplace_back(std::abs(x_of(entries[i]) - mean), i);
  const auto further = std::greater<>();
  std::make_heap(nearest.begin(), nearest.end(), further);
  const double target = static_cast<double>(d.sampling.typical_p) * total;
  double sum = 0, border = 0;
  while (sum < target && !nearest.empty()) {
    std::pop_heap(nearest.begin(), nearest.end(), further);
    border = nearest.back().first;
    sum += static_cast<double>(entries[nearest.back().second].value);
    nearest.pop_back();
  }
  std::erase_if(entries, [&](const auto& e) { return std::abs(x_of(e) - mean) > border; });
}

token_id draw_among(std::span<const weighted_token> entries, const draw& d) {
  double sum = 0;
  for (const auto& e : entries)
    sum += static_cast<double>(e.value);
  const double target = uniform(d.sampling.seed, d.token_index) * sum;
  return entries[walk(entries.size(), target,
                      [&](std::size_t i) { return static_cast<double>(entries[i].value); })]
      .token;
}

token_id draw_typical(std::span<const float> logits, const draw& d, float max,
                      sampler_scratch& scratch) {
  auto& entries = scratch.candidates;
  entries.clear();
  for (std::size_t i = 0; i < scratch.weights.size(); ++i)
    if (scratch.weights[i] > 0)
      entries.push_back({scratch.weights[i], static_cast<token_id>(i)});
  keep_typical(entries, logits, d, max, scratch);
  return draw_among(entries, d);
}

token_id draw_without_top_k(std::span<const float> logits, const draw& d, float max,
                            sampler_scratch& scratch) {
  auto& weights = scratch.weights;
  exponentiate(logits, max, d.sampling.temperature, weights);
  double total = sum_runs(weights, scratch.sums);
  if (d.sampling.top_p < 1)
    keep_nucleus(weights, static_cast<double>(d.sampling.top_p) * total, scratch);
  if (d.sampling.min_p > 0)
    for (float& w : weights)
      w = w < d.sampling.min_p ? 0 : w; // the top weight is 1
  if (d.sampling.typical_p < 1)
    return draw_typical(logits, d, max, scratch);
  if (d.sampling.top_p < 1 || d.sampling.min_p > 0)
    total = sum_runs(weights, scratch.sums);

  double target = uniform(d.sampling.seed, d.token_index) * total;
  const auto& sums = scratch.sums;
  const std::size_t run = walk(sums.size(), target, [&](std::size_t i) { return sums[i]; });
  for (std::size_t i = 0; i < run; ++i)
    target -= sums[i];
  const std::size_t first = run * run_length;
  const std::size_t count = std::min(run_length, weights.size() - first);
  return static_cast<token_id>(first + walk(count, target, [&](std::size_t i) {
                                 return static_cast<double>(weights[first + i]);
                               }));
}

token_id draw_with_top_k(std::span<const float> logits, const draw& d, float max,
                         sampler_scratch& scratch) {
  auto& out = scratch.candidates; // likeliest first
  select_top(logits, static_cast<std::size_t>(d.sampling.top_k), out);
  double total = 0;
  for (auto& c : out) {
    c.value = exp_negative((c.value - max) / d.sampling.temperature);
    total += static_cast<double>(c.value);
  }
  const double target_p = static_cast<double>(d.sampling.top_p) * total;
  double sum = 0;
  std::size_t kept = 0;
  while (kept < out.size() && (d.sampling.top_p >= 1 || sum < target_p) &&
         (kept == 0 || out[kept].value >= d.sampling.min_p)) // the top weight is 1
    sum += static_cast<double>(out[kept++].value);
  out.resize(kept);
  if (d.sampling.typical_p < 1)
    keep_typical(out, logits, d, max, scratch);
  return draw_among(out, d);
}

token_id choose(std::span<const float> logits, const draw& d, float max, sampler_scratch& scratch) {
  if (d.sampling.is_greedy())
    return static_cast<token_id>(std::find(logits.begin(), logits.end(), max) - logits.begin());
  if (d.sampling.top_k > 0 && static_cast<std::size_t>(d.sampling.top_k) < logits.size())
    return draw_with_top_k(logits, d, max, scratch);
  return draw_without_top_k(logits, d, max, scratch);
}

// Adds the raw log-probabilities of the chosen token and of the most likely tokens.
void report_logprobs(sample& drawn, std::int32_t top, float raw_max, sampler_scratch& scratch) {
  exponentiate(scratch.raw, raw_max, /*temperature=*/1, scratch.weights);
  const double total = sum_runs(scratch.weights, scratch.sums);
  const double log_total = static_cast<double>(raw_max) + std::log(total);
  const auto logprob_of = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_total);
  };
  drawn.logprob = logprob_of(scratch.raw[static_cast<std::size_t>(drawn.token)]);
  if (top == 0)
    return;
  select_top(scratch.raw, std::min(static_cast<std::size_t>(top), scratch.raw.size()),
             scratch.candidates);
  drawn.top.reserve(scratch.candidates.size());
  for (const auto& c : scratch.candidates)
    drawn.top.push_back({c.token, logprob_of(c.value)});
}

std::optional<error> id_out_of_range(token_id id, std::size_t vocabulary_size,
                                     std::string_view where) {
  if (id >= 0 && static_cast<std::size_t>(id) < vocabulary_size)
    return std::nullopt;
  return fail_param(errc::invalid_value, where, "token id {} is outside the vocabulary of {}", id,
                    vocabulary_size);
}

std::optional<error> parameter_out_of_range(const sampling_params& s) {
  const auto wrong = [](std::string_view name, auto value, std::string_view range) {
    return fail_param(errc::invalid_value, name, "{} must be {}, not {}", name, range, value);
  };
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    return wrong("temperature", s.temperature, "finite and at least 0");
  if (s.top_k < 0)
    return wrong("top_k", s.top_k, "at least 0 (0 is off)");
  if (!(s.top_p > 0 && s.top_p <= 1))
    return wrong("top_p", s.top_p, "in (0, 1]");
  if (!(s.min_p >= 0 && s.min_p <= 1))
    return wrong("min_p", s.min_p, "in [0, 1]");
  if (!(s.typical_p > 0 && s.typical_p <= 1))
    return wrong("typical_p", s.typical_p, "in (0, 1]");
  if (!(s.watermark_gamma >= 0 && s.watermark_gamma <= 1))
    return wrong("watermark_gamma", s.watermark_gamma, "in [0, 1]");
  if (!(s.watermark_delta >= 0) || !std::isfinite(s.watermark_delta))
    return wrong("watermark_delta", s.watermark_delta, "finite and at least 0");
  if (!(s.repetition_penalty > 0) || !std::isfinite(s.repetition_penalty))
    return wrong("repetition_penalty", s.repetition_penalty, "finite and above 0");
  if (!std::isfinite(s.presence_penalty))
    return wrong("presence_penalty", s.presence_penalty, "finite");
  if (!std::isfinite(s.frequency_penalty))
    return wrong("frequency_penalty", s.frequency_penalty, "finite");
  if (s.logprobs < -1)
    return wrong("logprobs", s.logprobs, "at least -1 (-1 is none)");
  return std::nullopt;
}

} // namespace

result<void> check_draw(const draw& d, std::size_t vocabulary_size) {
  if (auto bad = parameter_out_of_range(d.sampling))
    return *bad;
  for (const auto& b : d.sampling.biases) {
    if (auto bad = id_out_of_range(b.token, vocabulary_size, "logit_bias"))
      return *bad;
    if (!std::isfinite(b.bias))
      return fail_param(errc::invalid_value, "logit_bias", "the bias of token {} is not finite",
                        b.token);
  }
  for (const token_id id : d.banned)
    if (auto bad = id_out_of_range(id, vocabulary_size, "stop_token_ids"))
      return *bad;
  for (const auto& h : d.history)
    if (auto bad = id_out_of_range(h.token, vocabulary_size, "history"))
      return *bad;
  return {};
}

result<sample> score_token(std::span<const float> logits, token_id token, std::uint32_t top,
                           sampler_scratch& scratch) {
  const summary raw = summarize(logits);
  if (!raw.is_sound)
    return fail(errc::internal, "the logits for a token of the prompt are not numbers");
  scratch.raw.assign(logits.begin(), logits.end());
  sample scored;
  scored.token = token;
  report_logprobs(scored, static_cast<std::int32_t>(top), raw.max, scratch);
  return scored;
}

result<sample> draw_token(std::span<float> logits, const draw& d, sampler_scratch& scratch,
                          token_mask mask) {
  if (auto ok = check_draw(d, logits.size()); !ok)
    return ok.error();
  const bool wants_logprobs = d.sampling.logprobs >= 0;
  float raw_max = 0;
  if (wants_logprobs) {
    const summary raw = summarize(logits);
    if (!raw.is_sound)
      return fail(errc::internal, "the logits for token {} are not numbers", d.token_index);
    raw_max = raw.max;
    scratch.raw.assign(logits.begin(), logits.end());
  }
  apply_penalties(logits, d, mask);
  const summary s = summarize(logits);
  if (!s.is_sound)
    return fail(errc::internal, "no token can be drawn for index {}: logits are NaN or all -inf",
                d.token_index);
  sample drawn;
  drawn.token = choose(logits, d, s.max, scratch);
  if (wants_logprobs)
    report_logprobs(drawn, d.sampling.logprobs, raw_max, scratch);
  return drawn;
}

} // namespace baton::engine
