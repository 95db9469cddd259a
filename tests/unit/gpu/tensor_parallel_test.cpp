// Goal: ranks behind the boundary compute what one computes. Method: stages with slices as threads
// of the test over a group in shared memory, on the plain device; the families and a mixture.
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/support/shared_ranks.hpp"
#include "tests/unit/cpu/sequences.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;

namespace {

// The feed cuts any weight behind any column.
constexpr model::slice_blocks anywhere{1, 1};

// Ranks of one stage, driven like a single engine.
class ranks {
public:
  ranks(const family_golden& golden, std::uint32_t width, const std::string& device = "plain")
      : group_(width) {
    auto opened = plugin::library::open(engines_directory() / "engine_plain.so");
    REQUIRE_MESSAGE(opened, opened.error().message);
    plugin::config c;
    c.device = device;
    c.blocks = 16;
    c.rows_max = 256;
    c.keeps_logits = true;
    auto slices = model::split(golden.description, width, {}, anywhere);
    REQUIRE_MESSAGE(slices, slices.error().message);
    c.slices = *std::move(slices);
    for (c.rank = 0; c.rank < width; ++c.rank) {
      auto engine = plugin::plugin_engine::load(*opened, *golden.file, golden.description,
                                                model::whole(golden.description), c);
      REQUIRE_MESSAGE(engine, engine.error().message);
      CHECK(!(*engine)->run(batch_of({{1, {5}, 0}}), {})); // before it has met the others
      REQUIRE((*engine)->meet(group_.of(c.rank)));
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
      CHECK(all[rank]->samples.empty());
    return std::move(all.front());
  }
  std::span<const float> logits(std::size_t index) const { return engines_[0]->logits(index); }

private:
  shared_ranks group_;
  std::vector<std::unique_ptr<plugin::plugin_engine>> engines_;
};

} // namespace

// Summed up by the host, and as a device would that can do it by itself: the same bits here.
TEST_CASE("two ranks behind the boundary give the logits of transformers") {
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

TEST_CASE("ranks that are given different steps fail, and serve in the next epoch") {
  const family_golden golden("phi3");
  ranks two(golden, 2);
  const auto expected = run_in_steps(two, golden.prompt, {50});
  auto batches = std::vector<micro_batch>(2, batch_of({{1, {5}, 0}}));
  batches[0].batch = {7};
  batches[1].batch = {8};
  for (const auto& each : two.run_ranks(batches))
    CHECK(!each);
  for (const auto& each : two.run_ranks(std::vector<micro_batch>(2, batches[0])))
    CHECK(!each); // until the group has begun anew
  two.enter_next_epoch();
  check_same(expected, run_in_steps(two, golden.prompt, {50}));
}
