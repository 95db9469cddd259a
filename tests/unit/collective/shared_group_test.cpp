// Goal: rank 0 begins an epoch, the others enter it afterwards, and no rank enters a closed epoch.
#include "runtime/collective/shared_group.hpp"
#include "tests/support/deadline_scale.hpp"
#include "tests/unit/collective/groups.hpp"

#include <thread>

using namespace baton;
using namespace baton::testing;
using collective::shared_group;

namespace {

std::shared_ptr<shared_group> join(const group_file& file, std::uint32_t rank) {
  auto joined = shared_group::join(file.fd, rank, 2, {scaled(std::chrono::seconds(60))});
  REQUIRE_MESSAGE(joined, joined.error().message);
  return *std::move(joined);
}

} // namespace

TEST_CASE("the other ranks enter an epoch once rank 0 has begun it, and no older one") {
  const group_file file(2);
  const auto first = join(file, 0), second = join(file, 1);
  CHECK(first->is_broken());
  const auto early = second->enter({3});
  REQUIRE(!early);
  CHECK(early.error().code == errc::stale_epoch);
  REQUIRE(first->enter({3}));
  CHECK(!first->is_broken());
  CHECK(second->is_broken());
  REQUIRE(second->enter({3}));
  CHECK(!second->is_broken());
  REQUIRE(first->enter({5}));
  CHECK(!second->enter({3}));
  CHECK(!first->enter({4}));
  CHECK(second->enter({5}));
}

TEST_CASE("a rank in the previous epoch finds it closed, and its next epoch works") {
  const group_file file(2);
  const auto first = join(file, 0), second = join(file, 1);
  REQUIRE(first->enter({3}));
  REQUIRE(second->enter({3}));
  std::thread waiting([&] {
    const auto agreed = second->ranks()->agree(1);
    REQUIRE(!agreed);
    CHECK(agreed.error().code == errc::stale_epoch);
    CHECK(second->is_broken());
  });
  REQUIRE(first->enter({4}));
  waiting.join();
  REQUIRE(second->enter({4}));
  std::thread other([&] { CHECK(second->ranks()->agree(2)); });
  CHECK(first->ranks()->agree(2));
  other.join();
}

TEST_CASE("another incarnation of a rank takes its slot in the next epoch, not in the same one") {
  const group_file file(2);
  const auto first = join(file, 0), former = join(file, 1), latter = join(file, 1);
  REQUIRE(first->enter({3}));
  REQUIRE(former->enter({3}));
  const auto again = latter->enter({3});
  REQUIRE(!again);
  CHECK(again.error().code == errc::conflict);
  REQUIRE(first->enter({4}));
  CHECK(latter->enter({4}));
}

TEST_CASE("a group of another width, or a file that is no group, is rejected") {
  const group_file file(2);
  CHECK(!shared_group::join(file.fd, 0, 3));
  CHECK(!shared_group::join(file.fd, 2, 2));
  const int empty = ::memfd_create("empty", MFD_CLOEXEC);
  const auto joined = shared_group::join(empty, 0, 2);
  ::close(empty);
  REQUIRE(!joined);
  CHECK(joined.error().code == errc::version_mismatch);
}
