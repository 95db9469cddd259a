// Goal: every rank gets the same sum, formed in rank order, for every size, number of ranks and
// timing. No call waits without end. Method: ranks are threads that share one mapping, so that a
// thread sanitizer sees all accesses.
#include "tests/support/deadline_scale.hpp"
#include "tests/unit/collective/groups.hpp"

#include <algorithm>
#include <functional>
#include <thread>

using namespace baton;
using namespace baton::testing;
using collective::shared_collective;

namespace {

const std::chrono::milliseconds ample_for_memory =
    scaled(std::chrono::seconds(60)); // a loaded machine must not fail a test

// Runs work(rank's collective) on one thread per rank of a fresh group.
void run_ranks(std::uint32_t width, const std::function<void(shared_collective&)>& work,
               std::chrono::milliseconds deadline = ample_for_memory) {
  group_file group(width);
  const auto area = group.open(1);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < width; ++rank)
    ranks.emplace_back([&, rank] {
      shared_collective own(rank, width, {deadline});
      if (own.enter(area))
        work(own);
    });
  for (auto& each : ranks)
    each.join();
}

// Delays a call now and then, long enough for the others to fall asleep.
void be_late(std::uint32_t rank, std::uint32_t call, std::uint32_t every) {
  if (call % every != rank * every / 2)
    return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(call % 77);
  while (std::chrono::steady_clock::now() < until) {
  }
}

// Sizes around every border: cache lines, single-pass sums, slots.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> out = {0, 1, 2, 15, 16, 17, 31, 33, 511, 512, 513, 576, 1000};
  for (const std::size_t border : {std::size_t{16384}, std::size_t{32768}, std::size_t{65536}})
    for (const std::size_t offset : {0, 1, 2, 16, 17})
      out.insert(out.end(), {border - offset, border + offset});
  out.push_back(262'144 + 12'345);
  return out;
}

} // namespace

TEST_CASE("all ranks get the bits of the sum in rank order, for every size and width") {
  for (const std::uint32_t width : {1U, 2U, 3U, 5U}) {
    std::vector<std::size_t> wrong(width, 0), calls(width, 0);
    run_ranks(width, [&](shared_collective& own) {
      for (const std::size_t size : sizes()) {
        const auto call = static_cast<std::uint32_t>(size);
        auto values = values_of(own.rank(), size, call);
        if (!own.all_reduce(values))
          return;
        wrong[own.rank()] += wrong_sums(values, width, call);
        ++calls[own.rank()];
      }
    });
    CAPTURE(width);
    CHECK(calls == std::vector<std::size_t>(width, sizes().size()));
    CHECK(wrong == std::vector<std::size_t>(width, 0));
  }
}

TEST_CASE("a hundred thousand small sums are correct whichever rank is late") {
  constexpr std::uint32_t calls = 100'000, width = 2;
  std::vector<std::uint32_t> right(width, 0);
  run_ranks(width, [&](shared_collective& own) {
    std::vector<float> values(7);
    for (std::uint32_t call = 0; call < calls; ++call) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value_of(own.rank(), i, call);
      be_late(own.rank(), call, 1000);
      if (!own.all_reduce(values))
        return;
      right[own.rank()] += wrong_sums(values, width, call) == 0 ? 1U : 0U;
    }
  });
  CHECK(right == std::vector<std::uint32_t>(width, calls));
}

TEST_CASE("two hundred sums of several slots are correct whichever rank is late") {
  constexpr std::uint32_t calls = 200, width = 2;
  std::vector<std::uint32_t> right(width, 0);
  run_ranks(width, [&](shared_collective& own) {
    for (std::uint32_t call = 0; call < calls; ++call) {
      auto values = values_of(own.rank(), 40'000 + call * 400, call);
      be_late(own.rank(), call, 10);
      if (!own.all_reduce(values))
        return;
      right[own.rank()] += wrong_sums(values, width, call) == 0 ? 1U : 0U;
    }
  });
  CHECK(right == std::vector<std::uint32_t>(width, calls));
}

// Even, uneven, empty, and longer than a slot can hold.
std::vector<std::vector<std::size_t>> borders_of_parts() {
  return {{0, 0},
          {0, 40'000},
          {0, 1, 2},
          {0, 0, 9},
          {0, 9, 9},
          {0, 4'608, 9'216},
          {0, 16'384, 32'769},
          {0, 100'003, 200'001},
          {0, 31, 31, 70'000},
          {0, 50'000, 100'000, 100'001},
          {0, 7, 14, 30'021, 30'028, 30'035}};
}

TEST_CASE("each rank gets the bits of its part of the sum, then all ranks all parts") {
  for (const auto& borders : borders_of_parts()) {
    const auto width = static_cast<std::uint32_t>(borders.size() - 1);
    std::vector<int> done(width, 0);
    run_ranks(width, [&](shared_collective& own) {
      auto values = values_of(own.rank(), borders.back(), 1);
      const auto before = values;
      if (!own.in_parts()->reduce_scatter(values, borders))
        return;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_own = i >= borders[own.rank()] && i < borders[own.rank() + 1];
        wrong += values[i] != (is_own ? sum_of(width, i, 1) : before[i]) ? 1U : 0U;
      }
      auto bytes = std::as_writable_bytes(std::span(values));
      auto in_bytes = borders;
      for (auto& border : in_bytes)
        border *= sizeof(float);
      if (!own.in_parts()->all_gather(bytes, in_bytes))
        return;
      // The next call does not disturb data that is still being read.
      auto after = values_of(own.rank(), 100, 2);
      const bool is_right = wrong_sums(values, width, 1) == 0 && own.all_reduce(after) &&
                            wrong_sums(after, width, 2) == 0;
      done[own.rank()] = wrong == 0 && is_right ? 1 : 0;
    });
    CAPTURE(borders.back());
    CHECK(done == std::vector<int>(width, 1));
  }
}

TEST_CASE("ten thousand sums in two halves are correct whichever rank is late") {
  constexpr std::uint32_t calls = 10'000, width = 2;
  const std::vector<std::size_t> borders{0, 9, 16};
  std::vector<std::uint32_t> right(width, 0);
  run_ranks(width, [&](shared_collective& own) {
    for (std::uint32_t call = 0; call < calls; ++call) {
      auto values = values_of(own.rank(), borders.back(), call);
      be_late(own.rank(), call, 100);
      if (!own.in_parts()->reduce_scatter(values, borders) ||
          !own.in_parts()->all_gather(std::as_writable_bytes(std::span(values)),
                                      std::vector<std::size_t>{0, 36, 64}))
        return;
      right[own.rank()] += wrong_sums(values, width, call) == 0 ? 1U : 0U;
    }
  });
  CHECK(right == std::vector<std::uint32_t>(width, calls));
}

TEST_CASE("a closed epoch fails both halves of a sum") {
  group_file group(2);
  shared_collective own(0, 2, {ample_for_memory});
  std::vector<float> values(10);
  const std::vector<std::size_t> borders{0, 5, 10}, in_bytes{0, 20, 40};
  const auto bytes = std::as_writable_bytes(std::span(values));
  CHECK(own.in_parts()->reduce_scatter(values, borders).error().code == errc::stale_epoch);
  REQUIRE(own.enter(group.open(1)));
  group.memory.close_epoch();
  CHECK(own.in_parts()->all_gather(bytes, in_bytes).error().code == errc::stale_epoch);
  CHECK(own.in_parts()->reduce_scatter(values, borders).error().code == errc::stale_epoch);
}

TEST_CASE("rank 0 gets the parts of all ranks, however uneven, and the others keep their data") {
  const std::vector<std::vector<std::size_t>> cases = {
      {5, 3}, {1, 0}, {0, 7}, {0, 0}, {100'000, 70'001}, {16, 200'000, 3}, {70'000, 0, 66'000, 1}};
  for (const auto& counts : cases) {
    const auto width = static_cast<std::uint32_t>(counts.size());
    std::size_t total = 0;
    std::vector<float> expected;
    for (std::uint32_t rank = 0; rank < width; ++rank) {
      const auto part = values_of(rank, counts[rank], 1);
      expected.insert(expected.end(), part.begin(), part.end());
      total += counts[rank];
    }
    for (const bool is_in_place : {false, true}) {
      std::vector<float> all(total, -1);
      std::vector<int> done(width, 0);
      if (is_in_place)
        std::copy_n(expected.begin(), counts[0], all.begin());
      run_ranks(width, [&](shared_collective& own) {
        const auto part = values_of(own.rank(), counts[own.rank()], 1);
        std::vector<float> after = values_of(own.rank(), 100, 2);
        const bool gathered = own.rank() != 0 ? bool(own.gather(part, {}, counts))
                              : is_in_place
                                  ? bool(own.gather(std::span(all).first(counts[0]), all, counts))
                                  : bool(own.gather(part, all, counts));
        // The next call does not disturb data that is still being read.
        if (gathered && own.all_reduce(after) && wrong_sums(after, width, 2) == 0)
          done[own.rank()] = 1;
      });
      CHECK(all == expected);
      CHECK(done == std::vector<int>(width, 1));
    }
  }
}

TEST_CASE("a missing rank costs the others one deadline, and then every call fails") {
  run_ranks(
      3,
      [](shared_collective& own) {
        if (own.rank() == 2)
          return; // never joins the call
        std::vector<float> values(10);
        for (int i = 0; i < 3; ++i) {
          const auto begin = std::chrono::steady_clock::now();
          const auto summed = own.all_reduce(values);
          const auto took = std::chrono::steady_clock::now() - begin;
          REQUIRE(!summed);
          CHECK(summed.error().code == errc::deadline_exceeded);
          CHECK(summed.error().message.find("rank 2") != std::string::npos);
          CHECK(took < scaled(std::chrono::seconds(10)));
          CHECK((took >= std::chrono::milliseconds(50)) == (i == 0)); // only the first call waits
        }
      },
      std::chrono::milliseconds(50));
}

TEST_CASE("ranks agree on their step number, or every call of both fails") {
  run_ranks(2, [](shared_collective& own) {
    CHECK(!own.is_broken());
    for (std::uint64_t step = 1; step < 100; ++step)
      CHECK(own.agree(step << 32U));
    const auto agreed = own.agree(100 + own.rank()); // one of them skipped a step
    REQUIRE(!agreed);
    CHECK(agreed.error().code == errc::internal);
    CHECK(own.is_broken());
    std::vector<float> values(3);
    CHECK(!own.all_reduce(values));
  });
}

TEST_CASE("ranks that call different operations get an error instead of a sum") {
  run_ranks(2, [](shared_collective& own) {
    std::vector<float> values(own.rank() == 0 ? 10 : 11);
    const auto summed = own.all_reduce(values);
    REQUIRE(!summed);
    CHECK(summed.error().code == errc::internal);
  });
  run_ranks(2, [](shared_collective& own) {
    std::vector<float> values(16);
    const std::size_t counts[] = {8, 8};
    const auto out = own.rank() == 0 ? own.gather(std::span(values).first(8), values, counts)
                                     : own.all_reduce(values);
    REQUIRE(!out);
    CHECK(out.error().code == errc::internal);
  });
}

TEST_CASE("a waiting rank learns that its epoch has closed, and continues in the next one") {
  group_file group(2);
  const auto first = group.open(1);
  shared_collective waiting(0, 2, {ample_for_memory}), late(1, 2, {ample_for_memory});
  std::vector<float> values(4);
  CHECK(waiting.all_reduce(values).error().code == errc::stale_epoch); // none entered yet
  REQUIRE(waiting.enter(first));
  std::thread closer;
  SUBCASE("it closes") {
    closer = std::thread([&] { group.memory.close_epoch(); });
  }
  SUBCASE("another opens") {
    closer = std::thread([&] { static_cast<void>(group.memory.open_epoch({2})); });
  }
  const auto summed = waiting.all_reduce(values);
  closer.join();
  REQUIRE(!summed);
  CHECK(summed.error().code == errc::stale_epoch);
  CHECK(waiting.all_reduce(values).error().code == errc::stale_epoch);
  // A rank that has slept through both epochs.
  REQUIRE(late.enter(first));
  CHECK(late.all_reduce(values).error().code == errc::stale_epoch);
  const auto next = group.open(3);
  std::thread other([&] {
    std::vector<float> more = values_of(1, 4, 3);
    if (late.enter(next))
      static_cast<void>(late.all_reduce(more));
  });
  REQUIRE(waiting.enter(next));
  values = values_of(0, 4, 3);
  CHECK(waiting.all_reduce(values));
  CHECK(wrong_sums(values, 2, 3) == 0);
  other.join();
}

TEST_CASE("a rank's slot is taken once, in a group of the right width") {
  group_file group(2);
  const auto area = group.open(1);
  shared_collective first(1, 2), second(1, 2), wide(1, 3);
  CHECK(first.enter(area));
  const auto entered = second.enter(area);
  REQUIRE(!entered);
  CHECK(entered.error().code == errc::conflict);
  CHECK(wide.enter(area).error().code == errc::invalid_value);
  std::vector<float> values(1);
  CHECK(second.all_reduce(values).error().code == errc::stale_epoch);
}

TEST_CASE("look() detects the end of an epoch; a rank that gives up fails in this epoch alone") {
  group_file group(1);
  shared_collective own(0, 1);
  CHECK(!own.look()); // none was entered
  REQUIRE(own.enter(group.open(1)));
  CHECK(own.look());
  own.give_up(error{errc::link_down, "by another way", {}});
  CHECK(own.is_broken());
  CHECK(own.look().error().message == "by another way");
  CHECK(own.agree(1).error().message == "by another way");
  REQUIRE(own.enter(group.open(2)));
  CHECK(own.look());
  static_cast<void>(group.open(3));
  CHECK(own.look().error().code == errc::stale_epoch);
  CHECK(own.is_broken());
}
