// Goal: ranks connected by the bus get the same bits as ranks that share memory, and every failure
// is reported by name. Method: ranks are threads; a post office between their inboxes stands in for
// the bus.
#include "runtime/collective/bus_group.hpp"
#include "tests/support/deadline_scale.hpp"
#include "tests/unit/collective/groups.hpp"

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

using namespace baton;
using namespace baton::testing;
using collective::bus_group;

namespace {

const std::chrono::milliseconds ample_for_bus =
    scaled(std::chrono::seconds(60)); // a loaded machine must not fail a test

class office {
public:
  explicit office(std::uint32_t width, std::chrono::milliseconds deadline = ample_for_bus) {
    for (std::uint32_t rank = 0; rank < width; ++rank)
      groups_.push_back(std::make_unique<bus_group>(
          rank, width,
          [this](std::uint32_t to, group_values&& m) {
            ++sent;
            if (!is_deaf(to))
              groups_[to]->inbox().put(std::move(m));
          },
          collective::bus_options{deadline}));
    for (auto& of : groups_)
      for (std::uint32_t rank = 0; rank < width; ++rank)
        of->inbox().set_up(rank, true);
  }

  bus_group& rank(std::uint32_t rank) { return *groups_[rank]; }
  collective::collective& ranks(std::uint32_t rank) { return *groups_[rank]->ranks(); }
  void enter(std::uint64_t epoch) {
    for (auto& g : groups_)
      REQUIRE(g->enter({epoch}));
  }
  void run(const std::function<void(collective::collective&)>& work) {
    std::vector<std::thread> threads;
    for (auto& g : groups_)
      threads.emplace_back([&] { work(*g->ranks()); });
    for (auto& t : threads)
      t.join();
  }

  std::function<bool(std::uint32_t rank)> is_deaf = [](std::uint32_t) { return false; };
  std::atomic<int> sent{0};

private:
  std::vector<std::unique_ptr<bus_group>> groups_;
};

} // namespace

TEST_CASE("over the bus all ranks get the bits of the sum in rank order") {
  const std::vector<std::size_t> sizes = {0, 1, 17, 576, 262'143, 262'144, 262'145, 600'000};
  for (const std::uint32_t width : {1U, 2U, 3U, 5U}) {
    office o(width);
    o.enter(1);
    std::vector<std::size_t> wrong(width, 0), calls(width, 0);
    o.run([&](collective::collective& own) {
      for (const std::size_t size : sizes) {
        const auto call = static_cast<std::uint32_t>(size);
        auto values = values_of(own.rank(), size, call);
        if (!own.agree(call) || !own.all_reduce(values))
          return;
        wrong[own.rank()] += wrong_sums(values, width, call);
        ++calls[own.rank()];
      }
    });
    CAPTURE(width);
    CHECK(calls == std::vector<std::size_t>(width, sizes.size()));
    CHECK(std::accumulate(wrong.begin(), wrong.end(), std::size_t{0}) == 0);
  }
}

TEST_CASE("over the bus rank 0 gathers parts of all lengths in rank order") {
  const std::vector<std::size_t> counts = {7, 300'000, 0, 262'144};
  office o(4);
  o.enter(1);
  std::vector<float> all(7 + 300'000 + 262'144);
  std::atomic<int> done{0};
  o.run([&](collective::collective& own) {
    const auto part = values_of(own.rank(), counts[own.rank()], 3);
    done += own.gather(part, own.rank() == 0 ? std::span(all) : std::span<float>(), counts) ? 1 : 0;
  });
  CHECK(done == 4);
  std::size_t at = 0, wrong = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    for (std::size_t i = 0; i < counts[rank]; ++i)
      wrong += all[at++] != value_of(rank, i, 3) ? 1U : 0U;
  CHECK(wrong == 0);
}

TEST_CASE("over the bus ranks that call different operations fail, and stay failed") {
  office o(2, std::chrono::milliseconds(200)); // rank 1 receives nothing
  o.enter(1);
  std::atomic<int> failed{0};
  o.run([&](collective::collective& own) { failed += own.agree(own.rank()) ? 0 : 1; });
  CHECK(failed == 2);
  CHECK(o.ranks(0).agree(5).error().code == errc::internal);
  CHECK(o.rank(0).is_broken());
  o.enter(2);
  CHECK_FALSE(o.rank(0).is_broken());
  failed = 0;
  o.run([&](collective::collective& own) { failed += own.agree(7) ? 0 : 1; });
  CHECK(failed == 0);
}

TEST_CASE("a missing rank is detected in time, a disconnected one at once") {
  office o(3, std::chrono::milliseconds(50));
  o.enter(1);
  CHECK(o.ranks(0).agree(1).error().code == errc::deadline_exceeded);
  o.enter(2);
  o.rank(0).inbox().set_up(1, false);
  CHECK(o.ranks(0).agree(1).error().code == errc::link_down);
  o.rank(0).inbox().set_up(1, true); // its next incarnation
  o.enter(3);
  std::atomic<int> done{0};
  o.run([&](collective::collective& own) { done += own.agree(1) ? 1 : 0; });
  CHECK(done == 3);
}

TEST_CASE("a rank that is lost and comes back at once ends the wait for it") {
  office o(2);
  o.enter(1);
  const auto lose = [&] {
    o.rank(0).inbox().set_up(1, false);
    o.rank(0).inbox().set_up(1, true);
  };
  lose(); // before the first step: the previous incarnation
  o.run([](collective::collective& own) { REQUIRE(own.agree(1)); });
  lose(); // between two waits
  CHECK(o.ranks(0).agree(2).error().code == errc::link_down);
  o.enter(2);
  o.run([](collective::collective& own) { REQUIRE(own.agree(1)); });
  std::thread other(lose); // before the wait or during it
  CHECK(o.ranks(0).agree(2).error().code == errc::link_down);
  other.join();
}

TEST_CASE("a rank that waits in a closed epoch gets an error") {
  office o(2);
  o.enter(1);
  result<void> waited;
  std::thread other([&] { waited = o.ranks(1).agree(1); });
  while (o.sent < 2) // the epoch's message, and rank 1's
    std::this_thread::yield();
  REQUIRE(o.rank(0).enter({2}));
  other.join();
  REQUIRE_FALSE(waited);
  CHECK(waited.error().code == errc::stale_epoch);
  CHECK(o.rank(1).enter({1}).error().code == errc::stale_epoch);
}

TEST_CASE("a message of an earlier epoch is ignored in the current one") {
  office o(2, std::chrono::milliseconds(50));
  o.enter(1);
  o.is_deaf = [](std::uint32_t rank) { return rank == 1; };
  CHECK_FALSE(o.ranks(1).agree(1)); // rank 0 has its message
  REQUIRE(o.rank(0).enter({2}));
  CHECK(o.ranks(0).agree(1).error().code == errc::deadline_exceeded);
  REQUIRE(o.rank(0).enter({3}));
  o.rank(0).inbox().put({{2}, 1, 1, 3, 1, {}}); // late
  CHECK(o.ranks(0).agree(1).error().code == errc::deadline_exceeded);
}

TEST_CASE("over the bus look() detects a lost link and a later epoch") {
  office o(3);
  o.enter(1);
  CHECK(o.ranks(0).look());
  CHECK(o.ranks(2).look());
  o.rank(2).inbox().set_up(1, false); // a rank that it does not depend on
  CHECK(o.ranks(2).look());
  o.rank(0).inbox().set_up(1, false);
  CHECK(o.ranks(0).look().error().code == errc::link_down);
  CHECK(o.rank(0).is_broken());
  o.ranks(1).give_up(error{errc::link_down, "by another way", {}});
  CHECK(o.ranks(1).agree(1).error().message == "by another way");
  REQUIRE(o.rank(0).enter({2}));
  CHECK(o.ranks(2).look().error().code == errc::stale_epoch);
}
