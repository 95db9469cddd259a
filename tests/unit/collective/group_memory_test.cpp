// Goal: one epoch at a time, in ascending order, each in memory of its own.
#include "tests/unit/collective/groups.hpp"

#include <sys/stat.h>

using namespace baton;
using namespace baton::testing;
using collective::group_memory;

TEST_CASE("epochs open one after the other and never reopen") {
  group_file group(2);
  CHECK(group.memory.epoch() == epoch_id{0});
  CHECK(!group.memory.open_epoch({0}));
  REQUIRE(group.memory.open_epoch({7}));
  CHECK(group.memory.epoch() == epoch_id{7});
  for (const std::uint64_t epoch : {0U, 6U, 7U}) {
    const auto opened = group.memory.open_epoch({epoch});
    REQUIRE(!opened);
    CHECK(opened.error().code == errc::stale_epoch);
  }
  CHECK(group.memory.epoch() == epoch_id{7});
  group.memory.close_epoch();
  CHECK(group.memory.epoch() == epoch_id{0});
  CHECK(!group.memory.open_epoch({7}));
  CHECK(group.memory.open_epoch({8}));
}

TEST_CASE("only the area of the open epoch is available, the same one for each process") {
  group_file group(3);
  CHECK(!group.memory.area_of({1}));
  const auto area = group.open(1);
  CHECK(area->width() == 3);
  area->slot(2, 1)[collective::slot_floats - 1] = 17;
  auto other = group_memory::map(group.fd);
  REQUIRE_MESSAGE(other, other.error().message);
  CHECK(other->width() == 3);
  const auto same = other->area_of({1});
  REQUIRE(same);
  CHECK((*same)->slot(2, 1)[collective::slot_floats - 1] == 17);
  CHECK(!other->area_of({2}));
  CHECK(!other->area_of({0}));
}

TEST_CASE("data written in a closed epoch appears in no other epoch") {
  group_file group(2);
  const auto old = group.open(1);
  for (std::uint64_t epoch = 2; epoch < 40; ++epoch) {
    const auto area = group.open(epoch);
    CHECK(!old->is_open());
    for (const std::uint32_t which : {0U, 1U}) {
      old->slot(1, which)[5] = 23;
      CHECK(area->slot(1, which)[5] == 0);
    }
    old->flags_of(1).arrived = 9;
    CHECK(area->flags_of(1).arrived == 0);
  }
  // The file has grown by that many areas; only the areas touched last take memory.
  struct stat facts {};
  REQUIRE(::fstat(group.fd, &facts) == 0);
  CHECK(facts.st_blocks * 512 < 64 * 1024);
}

TEST_CASE("a group needs at least one rank and a bound, and other files are rejected") {
  const int fd = ::memfd_create("group", MFD_CLOEXEC);
  CHECK(group_memory::create(fd, 0).error().param == "width");
  CHECK(group_memory::create(fd, collective::ranks_max + 1).error().param == "width");
  CHECK(group_memory::create(-1, 2).error().code == errc::io_failed);
  CHECK(group_memory::map(-1).error().code == errc::io_failed);
  CHECK(group_memory::map(fd).error().code == errc::version_mismatch); // empty
  REQUIRE(::ftruncate(fd, 1 << 20) == 0);
  CHECK(group_memory::map(fd).error().code == errc::version_mismatch);
  CHECK(group_memory::create(fd, collective::ranks_max));
  CHECK(group_memory::map(fd));
  ::close(fd);
}
