// Timed steps of an engine: running ones, and those begun, one after the other, until they run or
// are discarded. The engine computes nothing.
#include "cluster/roles/shard/watched_engine.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

class idle_engine final : public engine::engine {
public:
  const baton::engine::capacity& limits() const noexcept override { return limits_; }
  result<baton::engine::step_output> run(const micro_batch& /*batch*/,
                                         std::span<const float> /*activations*/) override {
    if (!runs)
      return fail(errc::internal, "no");
    return baton::engine::step_output{};
  }
  bool begin(const micro_batch& /*batch*/, std::span<const float> /*activations*/) override {
    return begins;
  }
  std::uint32_t begun_max() const noexcept override { return 2; }

  bool begins = true, runs = true;

private:
  baton::engine::capacity limits_;
};

struct bench {
  std::shared_ptr<idle_engine> inner = std::make_shared<idle_engine>();
  std::shared_ptr<actors::step_watch> watch = std::make_shared<actors::step_watch>();
  watched_engine watched{inner, watch};

  // Long after the deadline of any step.
  bool is_timed() const {
    return watch->overdue(std::chrono::steady_clock::now() + std::chrono::hours(1)).has_value();
  }
  static micro_batch batch(std::uint64_t number, std::uint64_t epoch = 1) {
    micro_batch b;
    b.batch = {number};
    b.epoch = {epoch};
    b.tokens = {1};
    return b;
  }
};

} // namespace

TEST_CASE("a begun step is timed until it runs, and the next one from then on") {
  bench b;
  CHECK_FALSE(b.is_timed());
  CHECK(b.watched.begin(bench::batch(1), {}));
  CHECK(b.is_timed());
  CHECK(b.watched.begin(bench::batch(2), {}));
  REQUIRE(b.watched.run(bench::batch(1), {}));
  CHECK(b.is_timed());
  b.inner->runs = false;
  CHECK_FALSE(b.watched.run(bench::batch(2), {}));
  CHECK_FALSE(b.is_timed());
}

TEST_CASE("a step that is not begun is not timed, and a discarded one not any more") {
  bench b;
  b.inner->begins = false;
  CHECK_FALSE(b.watched.begin(bench::batch(1), {}));
  CHECK_FALSE(b.is_timed());
  b.inner->begins = true;
  CHECK(b.watched.begin(bench::batch(1), {}));
  b.watched.forget_begun();
  CHECK_FALSE(b.is_timed());
  // Another batch discards as well, even with the same number.
  for (const auto& [number, epoch] : {std::pair(7U, 1U), {2U, 2U}}) {
    CHECK(b.watched.begin(bench::batch(2), {}));
    CHECK(b.watched.begin(bench::batch(3), {}));
    REQUIRE(b.watched.run(bench::batch(number, epoch), {}));
    CHECK_FALSE(b.is_timed());
  }
}
