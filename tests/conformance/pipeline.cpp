#include "tests/conformance/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace baton::conformance {

pipeline::pipeline(const subject& s, const std::vector<std::uint32_t>& cuts,
                   const subject::masker& constrains)
    : stages_(s.make(cuts, constrains)) {
  REQUIRE(stages_.size() == cuts.size() + 1);
}

std::uint32_t pipeline::state_from(const piece& p) {
  if (p.from == 0)
    return 0;
  auto found = states_.find({p.ticket, p.from});
  if (found == states_.end())
    found = std::find_if(states_.begin(), states_.end(),
                         [&](const auto& entry) { return entry.first.second == p.from; });
  REQUIRE_MESSAGE(found != states_.end(), "no state behind " << p.from << " positions");
  found->second.named = ++states_named_;
  return found->second.slot;
}

// A slot that was not named, else the one that was not named for the longest time.
std::uint32_t pipeline::state_to(const piece& p) {
  const state_key key{p.ticket, p.from + p.count};
  if (!states_.contains(key)) {
    auto slot = static_cast<std::uint32_t>(states_.size() + 1);
    if (slot >= limits().state_slots) {
      const auto oldest =
          std::min_element(states_.begin(), states_.end(), [](const auto& a, const auto& b) {
            return a.second.named < b.second.named;
          });
      slot = oldest->second.slot;
      states_.erase(oldest);
    }
    states_[key].slot = slot;
  }
  auto& place = states_.at(key);
  place.named = ++states_named_;
  return place.slot;
}

micro_batch pipeline::batch_of(const std::vector<piece>& pieces) {
  const auto& l = limits();
  micro_batch batch;
  batch.batch = {batches_ + 1};
  batch.epoch = {1};
  for (const piece& p : pieces) {
    slice s;
    s.sequence.ticket.value = p.ticket;
    s.position = p.from;
    s.rows = p.count;
    s.samples = p.samples;
    s.drafts = p.drafts;
    s.blocks = p.blocks;
    s.blocks.resize((p.from + p.count + l.block_positions - 1) / l.block_positions);
    const auto begin = p.tokens->begin() + p.from;
    batch.tokens.insert(batch.tokens.end(), begin, begin + p.count);
    draw d;
    d.sampling.temperature = 0;
    d.sampling.logprobs = static_cast<std::int32_t>(l.vocabulary_size);
    batch.draws.insert(batch.draws.end(), s.draws(), d);
    if (l.state_slots > 0)
      s.state_from = state_from(p);
    batch.slices.push_back(std::move(s));
  }
  for (std::size_t i = 0; l.state_slots > 0 && i < pieces.size(); ++i)
    batch.slices[i].state_to = state_to(pieces[i]);
  return batch;
}

result<std::vector<sample>> pipeline::run(const micro_batch& batch) {
  ++batches_;
  std::vector<float> activations;
  for (const auto& stage : stages_) {
    auto out = stage->run(batch, activations);
    if (!out)
      return out.error();
    if (stage == stages_.back()) {
      CHECK(out->activations.empty());
      pooled_ = std::move(out->pooled);
      return std::move(out->samples);
    }
    CHECK(out->samples.empty());
    CHECK(out->pooled.empty());
    activations.assign(out->activations.begin(), out->activations.end());
  }
  return std::vector<sample>{};
}

std::vector<distribution> pipeline::step(const std::vector<piece>& pieces,
                                         std::vector<block_copy> copies) {
  auto batch = batch_of(pieces);
  batch.copies = std::move(copies);
  const auto samples = run(batch);
  REQUIRE_MESSAGE(samples, samples.error().message);
  REQUIRE(samples->size() == batch.draws.size());
  return distributions_of(*samples);
}

std::vector<distribution> pipeline::distributions_of(const std::vector<sample>& samples) const {
  std::vector<distribution> out;
  for (const auto& each : samples) {
    distribution d(limits().vocabulary_size, -std::numeric_limits<float>::infinity());
    for (const auto& entry : each.top)
      d.at(static_cast<std::size_t>(entry.token)) = entry.logprob;
    out.push_back(std::move(d));
  }
  return out;
}

namespace {

// Calls `step(from, count)` for all rows, in steps of these sizes, the last one repeated.
template <class Step>
void in_steps(std::size_t rows, const std::vector<std::uint32_t>& sizes, const Step& step) {
  const auto all = static_cast<std::uint32_t>(rows);
  for (std::uint32_t at = 0, i = 0; at < all; ++i) {
    const auto count = std::min(sizes[std::min<std::size_t>(i, sizes.size() - 1)], all - at);
    step(at, count);
    at += count;
  }
}

} // namespace

distribution pipeline::last_of(const std::vector<token_id>& tokens,
                               const std::vector<block_index>& blocks,
                               const std::vector<std::uint32_t>& sizes) {
  distribution last;
  in_steps(tokens.size(), sizes, [&](std::uint32_t at, std::uint32_t count) {
    last = step({{&tokens, at, count, blocks}}).front();
  });
  return last;
}

// Pools the rows of `one`, computed beside those of `company`.
pooled pipeline::pool_of(const piece& one, const std::vector<piece>& company, pool how) {
  auto pieces = company;
  pieces.push_back(one);
  auto batch = batch_of(pieces);
  how.slice = static_cast<std::uint32_t>(company.size());
  batch.pools = {std::move(how)};
  const auto samples = run(batch);
  REQUIRE_MESSAGE(samples, samples.error().message);
  CHECK(samples->size() == batch.draws.size());
  REQUIRE(pooled_.size() == 1);
  return std::move(pooled_.front());
}

std::vector<float> pipeline::embedding_of(const std::vector<token_id>& tokens,
                                          const std::vector<block_index>& blocks, pooling how,
                                          const std::vector<std::uint32_t>& sizes,
                                          const std::vector<piece>& company) {
  std::vector<float> values;
  in_steps(tokens.size(), sizes, [&](std::uint32_t at, std::uint32_t count) {
    const bool is_last = at + count == tokens.size();
    values = pool_of({&tokens, at, count, blocks, /*samples=*/false, 0, /*ticket=*/9}, company,
                     {0, how, is_last, std::move(values)})
                 .values;
  });
  return values;
}

std::vector<float> pipeline::scores_of(const std::vector<token_id>& tokens,
                                       const std::vector<block_index>& blocks,
                                       const std::vector<std::uint32_t>& sizes,
                                       const std::vector<piece>& company) {
  std::vector<float> logprobs;
  in_steps(tokens.size() - 1, sizes, [&](std::uint32_t at, std::uint32_t count) {
    const auto found = pool_of({&tokens, at, count, blocks, /*samples=*/false, 0, /*ticket=*/9},
                               company, {0, pooling::scores, false, {}, tokens[at + count], 1});
    REQUIRE(found.scores.size() == count);
    for (const auto& each : found.scores) {
      CHECK(each.top.size() == 1);
      logprobs.push_back(each.logprob);
    }
  });
  return logprobs;
}

std::uint32_t length_of(const engine::capacity& limits) {
  return 2 * limits.block_positions + (limits.block_positions + 1) / 2;
}

std::vector<token_id> some_tokens(const engine::capacity& limits, std::size_t count,
                                  std::uint32_t seed) {
  std::vector<token_id> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(
        static_cast<token_id>((i * i * 31 + i * 7 + seed * 53 + 5) % limits.vocabulary_size));
  return out;
}

std::vector<block_index> consecutive(block_index first, std::size_t count) {
  std::vector<block_index> out(count);
  for (auto& each : out)
    each = first++;
  return out;
}

void check_near(const subject& s, const distribution& expected, const distribution& found) {
  REQUIRE(expected.size() == found.size());
  std::size_t apart = 0;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(expected[i]) != std::bit_cast<std::uint32_t>(found[i]))
      ++apart;
    const double difference = std::abs(double{expected[i]} - double{found[i]});
    worst =
        std::isnan(difference) && expected[i] != found[i] ? INFINITY : std::max(worst, difference);
  }
  CAPTURE(worst);
  if (s.tolerance == 0)
    CHECK(apart == 0);
  else
    CHECK(worst <= double{s.tolerance});
}

} // namespace baton::conformance
