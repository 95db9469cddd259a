// Draws a token from logits with a team of lanes. Returns the same token as
// runtime/engine/sampler.hpp and keeps its building blocks: the exponential's polynomial, runs of
// 256 weights summed by four lanes, shares in buckets of similar weights. Sums of doubles have a
// fixed order or are exact: weights of a bucket have one exponent. Compiled without FP contraction.
//
// Called by kernels_host.cpp and kernels_cuda_draw.cu. Does not compute log-probabilities.
#pragma once

#include "runtime/gpu/bodies/kernel_bodies.hpp"

namespace baton::gpu {

inline constexpr std::uint32_t run_length = 256; // weights per partial sum
// The upper bits of a weight's float order weights in (0, 1]: 16 buckets per octave.
inline constexpr std::uint32_t weight_buckets = (0x3F800000U >> 19) + 1;

BATON_BODY std::uint32_t runs_of(std::uint32_t vocabulary) {
  return (vocabulary + run_length - 1) / run_length;
}

// Philox4x32-10 (runtime/engine/philox.hpp), uniform in [0, 1).
BATON_BODY double uniform_of(std::uint64_t seed, std::uint32_t token_index) {
  std::uint32_t c0 = token_index, c1 = 0, c2 = 0, c3 = 0;
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0, p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return static_cast<double>((std::uint64_t{c1} << 32 | c0) >> 11) * 0x1p-53;
}

// e^x for x <= 0, as the sampler computes it.
BATON_BODY float exp_negative(float x) {
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * 1.44269504F + 12582912.0F; // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::uint32_t exponent = (bits_of(shifted) - 0x4B400000U + 127U) << 23;
  return x < -87.0F ? 0.0F : p * float_of(exponent);
}

// One draw: its logits and its work memory.
template <class Team>
struct drawing {
  Team& team;
  const draw_args& a;
  const plugin::draw& d;
  float* logits;         // [vocabulary], modified
  float* weights;        // [vocabulary]
  std::uint32_t* tokens; // [vocabulary]
  double* sums;          // [runs_of(vocabulary)]
  double* buckets;       // [weight_buckets]

  BATON_BODY std::uint32_t size() const { return a.vocabulary; }

  BATON_BODY void adjust() {
    if (team.lane == 0) { // serial: a token may have two biases or be banned twice
      for (std::uint32_t i = 0; i < d.bias_count; ++i)
        logits[a.biases[d.first_bias + i].token] += a.biases[d.first_bias + i].bias;
      for (std::uint32_t i = 0; i < d.banned_count; ++i)
        logits[a.banned[d.first_banned + i]] = -INFINITY;
    }
    team.sync();
    for (std::uint32_t i = team.lane; i < d.history_count; i += team.lanes) {
      const plugin::token_count& h = a.history[d.first_history + i];
      float& x = logits[h.token];
      if (h.in_prompt + h.in_output > 0)
        x = x > 0 ? x / d.repetition_penalty : x * d.repetition_penalty;
      if (h.in_output > 0)
        x = x - d.frequency_penalty * static_cast<float>(h.in_output) - d.presence_penalty;
    }
    team.sync();
  }

  // Calls f(token, value) for this lane's part of `values`, in ascending order.
  template <class F>
  BATON_BODY void for_own(const float* values, const F& f) const {
    with_run<float>(size(), [&](auto length) {
      constexpr std::uint32_t run = decltype(length)::value;
      BATON_UNROLL_FOUR
      for (std::uint32_t i = team.lane * run; i < size(); i += team.lanes * run) {
        run_of<float, run> x;
        x.load(values + i);
        BATON_UNROLL
        for (std::uint32_t k = 0; k < run; ++k)
          f(i + k, x.value[k]);
      }
    });
  }

  // The highest logit and its token, the lower one among equals; NaN if the logits are invalid.
  // Tokens are below 2^24, so floats represent them exactly.
  BATON_BODY float most_likely(std::uint32_t* token) {
    float most = -INFINITY, wrong = 0;
    std::uint32_t own = 0;
    for_own(logits, [&](std::uint32_t i, float x) {
      wrong = x <= 3.402823466e38F ? wrong : 1.0F; // false for NaN and +infinity
      if (x > most) {
        most = x;
        own = i;
      }
    });
    const float all = team.max(most);
    *token =
        static_cast<std::uint32_t>(-team.max(most == all ? -static_cast<float>(own) : -INFINITY));
    return team.max(wrong) > 0 || all == -INFINITY ? NAN : all;
  }

  // The entry of `values` that follows (value, token) in order of likelihood, lower tokens first
  // among equals. False: there is none.
  BATON_BODY bool next(const float* values, float* value, std::uint32_t* token, bool is_first,
                       float below_or_at, float above) {
    float best = -INFINITY;
    std::uint32_t best_token = size();
    for_own(values, [&](std::uint32_t i, float x) {
      const bool is_after = is_first || x < *value || (x == *value && i > *token);
      if (is_after && x <= below_or_at && x > above && x > best) {
        best = x;
        best_token = i;
      }
    });
    const float most = team.max(best);
    if (most == -INFINITY)
      return false;
    *value = most;
    *token = static_cast<std::uint32_t>(
        -team.max(best == most ? -static_cast<float>(best_token) : -INFINITY));
    return true;
  }

  // Sums each run as the sampler does; returns the total.
  BATON_BODY double sum_runs() {
    team.sync();
    for (std::uint32_t run = team.lane; run < runs_of(size()); run += team.lanes) {
      const float* w = weights + std::uint64_t{run} * run_length;
      const std::uint32_t left = size() - run * run_length;
      const std::uint32_t count = left < run_length ? left : run_length;
      float partial[4] = {0, 0, 0, 0};
      std::uint32_t i = 0;
      for (; i + 4 <= count; i += 4)
        for (std::uint32_t k = 0; k < 4; ++k)
          partial[k] += w[i + k];
      double sum = 0;
      for (; i < count; ++i)
        sum += static_cast<double>(w[i]);
      for (std::uint32_t k = 0; k < 4; ++k)
        sum += static_cast<double>(partial[k]);
      sums[run] = sum;
    }
    team.sync();
    double total = 0;
    for (std::uint32_t run = 0; run < runs_of(size()); ++run)
      total += sums[run];
    return total;
  }

  // Whether sums of weights in or above the border bucket are exact: the weights are multiples of
  // one unit, and 53 bits hold the total. The order of additions does not matter then.
  BATON_BODY static bool is_sum_exact(std::uint32_t border, double total) {
    const auto most_likely_there = static_cast<double>(float_of(border << 19 | ((1U << 19) - 1)));
    return 2 * total < most_likely_there * 0x1p-24 * 0x1p53;
  }

  // Among the weights whose bits above `shift` equal `prefix`, finds the next `more` bits of the
  // weight at which the sum reaches the target. Adds the weights above it to the sum.
  BATON_BODY std::uint32_t narrow_border(std::uint32_t prefix, std::uint32_t shift,
                                         std::uint32_t more, double target, double* sum) {
    const std::uint32_t count = 1U << more;
    for (std::uint32_t i = team.lane; i < count; i += team.lanes)
      buckets[i] = 0;
    team.sync();
    for (std::uint32_t i = team.lane; i < size(); i += team.lanes) {
      const std::uint32_t bits = bits_of(weights[i]);
      if (bits >> shift == prefix)
        team.add(buckets + (bits >> (shift - more) & (count - 1)), static_cast<double>(weights[i]));
    }
    team.sync();
    std::uint32_t border = count - 1;
    while (border > 0 && *sum + buckets[border] < target)
      *sum += buckets[border--];
    team.sync();
    return prefix << more | border;
  }

  // The token at which `count` weights equal to `weight` are reached, in token order.
  BATON_BODY std::uint32_t find_equal(float weight, double count) {
    for (std::uint32_t run = team.lane; run < runs_of(size()); run += team.lanes) {
      double equals = 0;
      for (std::uint32_t i = run * run_length; i < size() && i < (run + 1) * run_length; ++i)
        equals += weights[i] == weight ? 1 : 0;
      sums[run] = equals;
    }
    team.sync();
    std::uint32_t run = 0;
    while (run + 1 < runs_of(size()) && sums[run] < count)
      count -= sums[run++];
    std::uint32_t token = run * run_length;
    for (;; ++token) {
      count -= weights[token] == weight ? 1 : 0;
      if (count <= 0 || token + 1 >= size())
        return token;
    }
  }

  // In the border bucket, finds the smallest kept weight and the last kept token of that weight.
  // Equivalent to taking tokens one by one, most likely first, but needs only a few scans.
  BATON_BODY void cut_border(std::uint32_t border, double target, double sum, float* least,
                             std::uint32_t* last) {
    constexpr std::uint32_t bits_left = 19, first = 10;
    const std::uint32_t half = narrow_border(border, bits_left, first, target, &sum);
    *least = float_of(narrow_border(half, bits_left - first, bits_left - first, target, &sum));
    const auto each = static_cast<double>(*least);
    double count = static_cast<double>(static_cast<std::uint64_t>((target - sum) / each));
    while (sum + count * each < target)
      count += 1;
    *last = find_equal(*least, count);
    team.sync(); // all lanes have finished reading: weights may change
  }

  // Sets weights outside the nucleus to 0.
  BATON_BODY void keep_nucleus(double target, double total) {
    for (std::uint32_t i = team.lane; i < weight_buckets; i += team.lanes)
      buckets[i] = 0;
    team.sync();
    for (std::uint32_t i = team.lane; i < size(); i += team.lanes)
      team.add(buckets + (bits_of(weights[i]) >> 19), static_cast<double>(weights[i]));
    team.sync();
    double sum = 0;
    std::uint32_t border = weight_buckets - 1;
    while (border > 0 && sum + buckets[border] < target)
      sum += buckets[border--];
    team.sync();
    float least = INFINITY; // of the kept weights in the border bucket
    std::uint32_t last = 0;
    if (border > 0 && sum < target && is_sum_exact(border, total))
      cut_border(border, target, sum, &least, &last);
    else
      cut_border_one_by_one(border, target, sum, &least, &last);
    for (std::uint32_t i = team.lane; i < size(); i += team.lanes) {
      const float w = weights[i];
      const std::uint32_t bucket = bits_of(w) >> 19;
      const bool stays =
          bucket > border || (bucket == border && (w > least || (w == least && i <= last)));
      weights[i] = stays ? w : 0;
    }
    team.sync();
  }

  // The same with one scan per kept token. If none is kept, `least` stays unchanged.
  BATON_BODY void cut_border_one_by_one(std::uint32_t border, double target, double sum,
                                        float* least, std::uint32_t* last) {
    const float above = border == 0 ? 0.0F : float_of((border << 19) - 1);
    const float below_or_at = float_of((border << 19) + ((1U << 19) - 1));
    float value = 0;
    std::uint32_t token = 0;
    bool is_first = true;
    while (sum < target && next(weights, &value, &token, is_first, below_or_at, above)) {
      sum += static_cast<double>(value);
      is_first = false;
      *least = value;
      *last = token;
    }
    team.sync();
  }

  // The index at which the running sum of `values` exceeds the target; skips values of 0.
  template <class Value>
  BATON_BODY static std::uint32_t walk(std::uint32_t count, double target, const Value* values) {
    double sum = 0;
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto w = static_cast<double>(values[i]);
      if (w <= 0)
        continue;
      last = i;
      sum += w;
      if (sum > target)
        return i;
    }
    return last;
  }

  BATON_BODY std::uint32_t draw_of_all(float most) {
    for (std::uint32_t i = team.lane; i < size(); i += team.lanes)
      weights[i] = exp_negative((logits[i] - most) / d.temperature);
    double total = sum_runs();
    if (d.top_p < 1)
      keep_nucleus(static_cast<double>(d.top_p) * total, total);
    if (d.min_p > 0)
      for (std::uint32_t i = team.lane; i < size(); i += team.lanes)
        weights[i] = weights[i] < d.min_p ? 0 : weights[i];
    if (d.top_p < 1 || d.min_p > 0)
      total = sum_runs();
    double target = uniform_of(d.seed, d.token_index) * total;
    const std::uint32_t run = walk(runs_of(size()), target, sums);
    for (std::uint32_t i = 0; i < run; ++i)
      target -= sums[i];
    const std::uint32_t first = run * run_length, left = size() - first;
    return first + walk(left < run_length ? left : run_length, target, weights + first);
  }

  BATON_BODY std::uint32_t draw_of_top_k(float most) {
    float value = 0;
    std::uint32_t token = 0, count = 0;
    while (count < d.top_k && next(logits, &value, &token, count == 0, INFINITY, -INFINITY)) {
      if (team.lane == 0) {
        weights[count] = exp_negative((value - most) / d.temperature);
        tokens[count] = token;
      }
      ++count;
    }
    team.sync();
    double total = 0, sum = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      total += static_cast<double>(weights[i]);
    const double target_p = static_cast<double>(d.top_p) * total;
    std::uint32_t kept = 0;
    while (kept < count && (d.top_p >= 1 || sum < target_p) &&
           (kept == 0 || weights[kept] >= d.min_p))
      sum += static_cast<double>(weights[kept++]);
    return tokens[walk(kept, uniform_of(d.seed, d.token_index) * sum, weights)];
  }

  // Returns -1 if no token can be drawn.
  BATON_BODY std::int32_t draw() {
    adjust();
    std::uint32_t token = 0;
    const float most = most_likely(&token);
    if (!(most == most))
      return -1;
    if (d.temperature > 0)
      token = d.top_k > 0 && d.top_k < size() ? draw_of_top_k(most) : draw_of_all(most);
    return static_cast<std::int32_t>(token);
  }
};

template <class Team>
BATON_BODY void draw_row(Team& team, const draw_args& a, std::uint32_t row) {
  const std::uint64_t begin = std::uint64_t{row} * a.vocabulary;
  drawing<Team> own{team,
                    a,
                    a.draws[row],
                    a.logits + begin,
                    a.weights + begin,
                    a.tokens + begin,
                    a.sums + std::uint64_t{row} * runs_of(a.vocabulary),
                    a.buckets + std::uint64_t{row} * weight_buckets};
  const std::int32_t token = own.draw();
  if (team.lane == 0)
    a.drawn[row] = token;
}

} // namespace baton::gpu
