#include "tests/conformance/pipeline.hpp"

#include <doctest/doctest.h>

#include <array>

namespace baton::conformance {
namespace {

// Two prompts in alternating chunks, then both sequences row by row. Every other step asks for
// tokens alone, which an engine may draw by itself.
std::vector<micro_batch> steps_of_two(pipeline& p) {
  const auto& l = p.limits();
  const auto one = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1);
  const auto blocks = consecutive(0, 3), others = consecutive(4, 3);
  const auto chunk = length_of(l) / 4;
  std::vector<micro_batch> out;
  const auto add = [&](const std::vector<piece>& pieces) {
    auto batch = p.batch_of(pieces);
    batch.batch = {out.size() + 1};
    for (auto& d : batch.draws)
      if (out.size() % 2 == 1)
        d.sampling.logprobs = -1;
    out.push_back(std::move(batch));
  };
  for (const std::uint32_t from : {0U, chunk}) {
    add({{&one, from, chunk, blocks}});
    add({{&other, from, chunk, others, true, 0, 2}});
  }
  for (std::uint32_t at = 2 * chunk; at < length_of(l); ++at)
    add({{&one, at, 1, blocks}, {&other, at, 1, others, true, 0, 2}});
  return out;
}

// One stage; some of the steps begun on it come, others do not.
class begun_stage {
public:
  // `mirage`: never comes. `rows_in`: input rows of each batch and of the mirage, empty for stage
  // 0.
  begun_stage(engine::engine& engine, std::vector<micro_batch> batches, micro_batch mirage,
              std::vector<std::vector<float>> rows_in)
      : engine_(engine), batches_(std::move(batches)), mirage_(std::move(mirage)),
        rows_in_(std::move(rows_in)) {}

  engine::step_output run(std::size_t i) {
    const auto batch = in_epoch(i, epoch_of(i));
    if (i % 7 == 3) {
      engine_.begin(mirage_, rows_in_.back());
    } else if (i % 7 == 5) {
      auto bad = mirage_;
      bad.slices[0].blocks[0] = engine_.limits().blocks;
      engine_.begin(bad, rows_in_.back());
    } else if (i % 7 != 6) {
      begin(i, i);
      begin(i + 1, i);
    }
    for (int looks = 0; looks < 4; ++looks)
      static_cast<void>(engine_.is_busy());
    auto out = engine_.run(batch, rows_in_[i]);
    REQUIRE_MESSAGE(out, out.error().message);
    return *std::move(out);
  }

private:
  // Begins each once, with the tokens known while batch `now` runs. The next epoch is unexpected:
  // the same number is another batch there.
  void begin(std::size_t i, std::size_t now) {
    if (i < begun_ || i >= batches_.size())
      return;
    begun_ = i + 1;
    if (epoch_of(i) == epoch_of(now)) {
      engine_.begin(in_epoch(i, epoch_of(now)), rows_in_[i]);
      return;
    }
    auto another = mirage_;
    another.batch = batches_[i].batch;
    another.epoch = epoch_of(now);
    engine_.begin(another, rows_in_.back());
  }
  epoch_id epoch_of(std::size_t i) const { return {i > last_of_first_epoch ? 2U : 1U}; }
  micro_batch in_epoch(std::size_t i, epoch_id epoch) const {
    auto batch = batches_[i];
    batch.epoch = epoch;
    return batch;
  }

  static constexpr std::size_t last_of_first_epoch = 8; // at which the next epoch begins

  engine::engine& engine_;
  std::vector<micro_batch> batches_;
  micro_batch mirage_;
  std::vector<std::vector<float>> rows_in_;
  std::size_t begun_ = 0; // the first not begun yet
};

void check_same(const subject& s, const pipeline& p, const micro_batch& batch,
                const std::vector<sample>& expected, const std::vector<sample>& found) {
  REQUIRE(found.size() == expected.size());
  if (batch.draws[0].sampling.logprobs < 0) {
    for (std::size_t i = 0; i < found.size() && s.tolerance == 0; ++i)
      CHECK(found[i].token == expected[i].token);
    return;
  }
  const auto before = p.distributions_of(expected), now = p.distributions_of(found);
  for (std::size_t i = 0; i < now.size(); ++i)
    check_near(s, before[i], now[i]);
}

} // namespace

void begun_steps_do_not_show(const subject& s) {
  pipeline step_by_step(s, {1});
  const auto& l = step_by_step.limits();
  const auto batches = steps_of_two(step_by_step);
  std::vector<std::vector<sample>> expected;
  for (const auto& batch : batches) {
    const auto samples = step_by_step.run(batch);
    REQUIRE_MESSAGE(samples, samples.error().message);
    expected.push_back(*samples);
  }
  const auto third = some_tokens(l, length_of(l), 2);
  auto mirage = step_by_step.batch_of({{&third, 0, length_of(l), consecutive(8, 3), true, 0, 3}});
  mirage.batch = {batches.size() + 1000};
  if (l.state_slots > 0)
    mirage.slices[0].state_to =
        l.state_slots; // an engine may write it, though the step never comes
  const auto all = s.make({1}, nullptr);
  begun_stage first(*all[0], batches, mirage, std::vector<std::vector<float>>(batches.size() + 1));
  std::vector<std::vector<float>> between;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto rows = first.run(i).activations;
    between.emplace_back(rows.begin(), rows.end());
  }
  between.emplace_back(std::size_t{mirage.rows()} * l.hidden_size, 0.5F);
  begun_stage last(*all[1], batches, mirage, between);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    CAPTURE(i);
    check_same(s, step_by_step, batches[i], expected[i], last.run(i).samples);
  }
}

namespace {

// Two sequences that are decoded row by row, in an order that changes, each from its own end.
struct two_decoding {
  std::array<std::vector<token_id>, 2> tokens;

  // Step `i`, with known tokens, or with tokens to come from the draws of the step before it.
  micro_batch step(pipeline& p, std::uint32_t i, bool is_fed) const {
    const std::array<std::uint32_t, 2> order = order_of(i), before = order_of(i - 1);
    std::vector<piece> pieces;
    auto all = tokens;
    for (const auto which : order) {
      auto& own = all[which];
      own.resize(length_ + i + 1); // any, if they are to come
      pieces.push_back({&own, length_ + i, 1, consecutive(4 * which, 3), true, 0, which + 1});
    }
    auto batch = p.batch_of(pieces);
    batch.batch = {100 + i};
    for (std::uint32_t row = 0; row < 2; ++row) {
      auto& d = batch.draws[row];
      d.sampling = {};
      d.sampling.seed = order[row];
      d.sampling.top_k = 5;
      d.token_index = i;
      if (!is_fed)
        continue;
      batch.tokens[row] = placeholder_token;
      batch.feeds.push_back({row, order[row] == before[0] ? 0U : 1U, {100 + i - 1}});
    }
    return batch;
  }
  void take(std::uint32_t i, const std::vector<sample>& drawn) {
    REQUIRE(drawn.size() == 2);
    for (std::uint32_t row = 0; row < 2; ++row)
      tokens[order_of(i)[row]].push_back(drawn[row].token);
  }
  std::vector<piece> prompts() {
    length_ = static_cast<std::uint32_t>(tokens[0].size()) - 1;
    return {{&tokens[0], 0, length_, consecutive(0, 3), true, 0, 1},
            {&tokens[1], 0, length_, consecutive(4, 3), true, 0, 2}};
  }

private:
  static std::array<std::uint32_t, 2> order_of(std::uint32_t i) {
    return i % 3 == 1 ? std::array{1U, 0U} : std::array{0U, 1U};
  }
  std::uint32_t length_ = 0; // of each prompt
};

} // namespace

// A stage that is first and last may continue from its own draws; others report that they do not.
void fed_steps_do_not_show(const subject& s) {
  pipeline step_by_step(s), former(s); // one forms the batches of `fed` alone
  const auto& l = step_by_step.limits();
  const auto whole = s.make({}, nullptr);
  auto& fed = *whole.front();
  two_decoding expected;
  expected.tokens = {some_tokens(l, l.block_positions), some_tokens(l, l.block_positions, 1)};
  auto found = expected;
  const auto prompts = step_by_step.batch_of(expected.prompts());
  REQUIRE(step_by_step.run(prompts));
  REQUIRE(fed.run(former.batch_of(found.prompts()), {}));
  const std::uint32_t steps = l.block_positions + 4;
  for (std::uint32_t i = 0; i < steps; ++i) {
    const auto drawn = step_by_step.run(expected.step(step_by_step, i, false));
    REQUIRE_MESSAGE(drawn, drawn.error().message);
    expected.take(i, *drawn);
  }
  bool is_begun = fed.begin(found.step(former, 0, false), {});
  for (std::uint32_t i = 0; i < steps; ++i) {
    const bool is_next_begun =
        is_begun && i % 5 != 4 && fed.begin(found.step(former, i + 1, true), {});
    const auto out = fed.run(found.step(former, i, false), {});
    REQUIRE_MESSAGE(out, out.error().message);
    found.take(i, out->samples);
    is_begun = is_next_begun || fed.begin(found.step(former, i + 1, false), {});
  }
  if (s.tolerance == 0)
    CHECK(found.tokens == expected.tokens);
}

} // namespace baton::conformance
