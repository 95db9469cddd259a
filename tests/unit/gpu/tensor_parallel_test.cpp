// Goal: ranks behind the plugin ABI compute the results of one rank. Method: one thread per rank
// over a group in shared memory, on the plain device; the families and a mixture.
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/support/shared_ranks.hpp"
#include "tests/unit/cpu/embeddings.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace baton;
using namespace baton::testing;

namespace {

// The weight feed can cut a weight at any column.
constexpr model::slice_blocks anywhere{1, 1};

// The shard's connection to the other ranks, with counters.
class counting_group final : public collective::collective {
public:
  counting_group(std::shared_ptr<baton::collective::collective> of, std::atomic<int>& gathers)
      : of_(std::move(of)), gathers_(gathers) {}
  std::uint32_t rank() const noexcept override { return of_->rank(); }
  std::uint32_t width() const noexcept override { return of_->width(); }
  result<void> agree(std::uint64_t what) override { return of_->agree(what); }
  result<void> all_reduce(std::span<float> values) override { return of_->all_reduce(values); }
  result<void> gather(std::span<const float> own, std::span<float> all,
                      std::span<const std::size_t> counts) override {
    ++gathers_;
    return of_->gather(own, all, counts);
  }
  result<void> look() override { return of_->look(); }
  void give_up(const error& why) override { of_->give_up(why); }

private:
  std::shared_ptr<baton::collective::collective> of_;
  std::atomic<int>& gathers_;
};

// The ranks of one stage, driven like a single engine.
class ranks {
public:
  ranks(const family_golden& golden, std::uint32_t width, const std::string& device = "plain",
        bool keeps_logits = true)
      : group_(width) {
    auto opened = plugin::library::open(engines_directory() / "engine_plain.so");
    REQUIRE_MESSAGE(opened, opened.error().message);
    plugin::config c;
    c.device = device;
    c.blocks = 16;
    c.rows_max = 256;
    c.keeps_logits = keeps_logits;
    auto slices =
        model::split(golden.description, width, {}, anywhere, model::head_cut::between_kv_heads);
    REQUIRE_MESSAGE(slices, slices.error().message);
    c.slices = *std::move(slices);
    for (c.rank = 0; c.rank < width; ++c.rank) {
      auto engine = plugin::plugin_engine::load(*opened, *golden.file, golden.description,
                                                model::whole(golden.description), c);
      REQUIRE_MESSAGE(engine, engine.error().message);
      CHECK(!(*engine)->run(batch_of({{1, {5}, 0}}), {})); // before it has joined the others
      REQUIRE((*engine)->connect(std::make_shared<counting_group>(group_.of(c.rank), gathers_)));
      engines_.push_back(*std::move(engine));
    }
  }

  void enter_next_epoch() { group_.enter_next_epoch(); }

  using outcomes = std::vector<result<engine::step_output>>;
  outcomes run_ranks(const std::vector<micro_batch>& batches) {
    outcomes out(engines_.size(), error{});
    run_together(out.size(),
                 [&](std::size_t rank) { out[rank] = engines_[rank]->run(batches[rank], {}); });
    return out;
  }
  result<engine::step_output> run(const micro_batch& batch, std::span<const float>) {
    auto all = run_ranks(std::vector<micro_batch>(engines_.size(), batch));
    for (const auto& each : all)
      REQUIRE_MESSAGE(each, each.error().message);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      CHECK((all[rank]->samples.empty() && all[rank]->pooled.empty()));
    return std::move(all.front());
  }
  std::span<const float> logits(std::size_t index) const { return engines_[0]->logits(index); }
  int gathers() const { return gathers_; } // of logits, through the shard

private:
  std::atomic<int> gathers_{0};
  shared_ranks group_;
  std::vector<std::unique_ptr<plugin::plugin_engine>> engines_;
};

// One row of each of eight sequences, each with different sampling parameters.
micro_batch drawing_batch(std::uint32_t step) {
  std::vector<part> parts;
  for (std::uint32_t i = 0; i < 8; ++i)
    parts.push_back({.sequence = i + 1,
                     .tokens = {static_cast<token_id>((5 + 7 * i + 3 * step) % 60)},
                     .position = step,
                     .blocks_from = i});
  auto batch = batch_of(parts);
  for (std::uint32_t i = 1; i < 8; ++i) { // the first one stays greedy
    auto& d = batch.draws[i];
    d.token_index = step;
    d.sampling.seed = 977 * i + step;
    d.sampling.temperature = 1.3F;
    d.sampling.top_k = i % 2 == 0 ? 20 : 0;
    d.sampling.top_p = i % 3 == 0 ? 0.9F : 1;
    d.sampling.min_p = i == 5 ? 0.02F : 0;
  }
  batch.draws[6].sampling.repetition_penalty = 1.4F;
  batch.draws[6].history = {{1, 1, 0}, {50, 0, 2}};
  batch.draws[7].sampling.biases = {{2, 9.0F}, {55, 9.0F}};
  batch.draws[7].banned = {2};
  return batch;
}

} // namespace

// Summed by the host, and as a device that sums by itself would: the same bits here.
TEST_CASE("two ranks behind the plugin ABI give the logits of transformers") {
  for (const auto& name : family_names) {
    const family_golden golden(name);
    CAPTURE(name);
    if (golden.description.kv_head_count < 2)
      continue;
    ranks two(golden, 2), by_itself(golden, 2, "plain-sums");
    const auto summed = run_in_steps(two, golden.prompt, {1});
    const auto found = golden.compare(summed);
    CHECK(found.mean < 2e-4);
    CHECK(found.worst < 2e-3);
    check_same(summed, run_in_steps(by_itself, golden.prompt, {50}));
  }
}

TEST_CASE("ranks with different steps fail, and serve in the next epoch") {
  const family_golden golden("phi3");
  ranks two(golden, 2);
  const auto expected = run_in_steps(two, golden.prompt, {50});
  auto batches = std::vector<micro_batch>(2, batch_of({{1, {5}, 0}}));
  batches[0].batch = {7};
  batches[1].batch = {8};
  for (const auto& each : two.run_ranks(batches))
    CHECK(!each);
  for (const auto& each : two.run_ranks(std::vector<micro_batch>(2, batches[0])))
    CHECK(!each); // until the group begins a new epoch
  two.enter_next_epoch();
  check_same(expected, run_in_steps(two, golden.prompt, {50}));
}

TEST_CASE("ranks whose device sums by itself draw on it what the shard would draw") {
  for (const auto* name : {"phi3", "gemma2"}) {
    CAPTURE(name);
    const family_golden golden(name);
    ranks by_shard(golden, 2, "plain", /*keeps_logits=*/false);
    ranks by_device(golden, 2, "plain-sums", /*keeps_logits=*/false);
    std::map<token_id, int> drawn;
    for (std::uint32_t step = 0; step < 30; ++step) {
      CAPTURE(step);
      const auto batch = drawing_batch(step);
      const auto expected = by_shard.run(batch, {}), found = by_device.run(batch, {});
      REQUIRE_MESSAGE(expected, expected.error().message);
      REQUIRE_MESSAGE(found, found.error().message);
      REQUIRE(found->samples.size() == 8);
      CHECK(found->samples == expected->samples);
      for (const auto& each : found->samples)
        ++drawn[each.token];
    }
    CHECK(drawn.size() > 20);
    CHECK(by_shard.gathers() > 0);
    CHECK(by_device.gathers() == 0);
    // The shard draws from full logits where it needs more than a token, or where a device is slow.
    for (const auto& change : std::vector<std::function<void(sampling_params&)>>{
             [](auto& s) { s.logprobs = 2; }, [](auto& s) { s.top_k = 257; },
             [](auto& s) { s.top_p = 0.9995F; }}) {
      auto asks_for_more = drawing_batch(30);
      change(asks_for_more.draws[3].sampling);
      const auto before = by_device.gathers();
      const auto expected = by_shard.run(asks_for_more, {}),
                 found = by_device.run(asks_for_more, {});
      REQUIRE_MESSAGE(found, found.error().message);
      CHECK(found->samples == expected->samples);
      CHECK(by_device.gathers() > before);
    }
  }
}

TEST_CASE("two ranks make the embedding of one") {
  const family_golden golden("phi3");
  const auto library = plugin::library::open(engines_directory() / "engine_plain.so");
  REQUIRE_MESSAGE(library, library.error().message);
  plugin::config c;
  c.device = "plain";
  c.blocks = 16;
  c.rows_max = 256;
  const auto one = plugin::plugin_engine::load(*library, *golden.file, golden.description,
                                               model::whole(golden.description), c);
  REQUIRE_MESSAGE(one, one.error().message);
  ranks two(golden, 2), by_itself(golden, 2, "plain-sums");
  for (const auto how : all_poolings) {
    const auto expected = embedding_of(**one, golden.prompt, how, {50});
    const auto summed = embedding_of(two, golden.prompt, how, {50});
    REQUIRE(expected.size() == golden.description.hidden_size);
    for (std::size_t i = 0; i < expected.size(); ++i)
      REQUIRE(std::abs(expected[i] - summed[i]) < 1e-4F);
    CHECK(embedding_of(by_itself, golden.prompt, how, {50}) == summed);
  }
}
