// The management of KV blocks.
#include "runtime/schedule/kv/blocks.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;
using namespace baton::schedule;

TEST_CASE("a sequence grows by whole blocks and gives all of them back") {
  block_manager account(5, 4);
  const sequence_id a{{1}, 0}, b{{1}, 1};
  CHECK(account.grow(a, 1));
  CHECK(account.of(a).size() == 1);
  CHECK(account.grow(a, 4));
  CHECK(account.of(a).size() == 1);
  CHECK(account.grow(a, 5));
  CHECK(account.of(a).size() == 2);
  CHECK(account.grow(a, 3)); // never shrinks
  CHECK(account.of(a).size() == 2);
  CHECK(account.grow(b, 12));
  CHECK(account.used() == 5);
  account.check_integrity();

  std::set<block_index> seen(account.of(a).begin(), account.of(a).end());
  seen.insert(account.of(b).begin(), account.of(b).end());
  CHECK(seen.size() == 5);

  account.release(b);
  account.release(b);
  CHECK(account.free() == 3);
  account.release(a);
  CHECK(account.used() == 0);
  account.check_integrity();
}

TEST_CASE("growth is all or nothing") {
  block_manager account(3, 4);
  const sequence_id a{{1}, 0}, b{{2}, 0};
  CHECK(account.grow(a, 8));
  const std::vector<block_index> before(account.of(a).begin(), account.of(a).end());
  CHECK_FALSE(account.grow(b, 5));
  CHECK(account.of(b).empty());
  CHECK_FALSE(account.grow(a, 13));
  CHECK(std::vector<block_index>(account.of(a).begin(), account.of(a).end()) == before);
  CHECK(account.grow(a, 12));
  CHECK(account.of(a)[0] == before[0]);
  CHECK(account.of(a)[1] == before[1]);
  account.check_integrity();
}

TEST_CASE("slots in swap space are taken block by block, all or none, and come back") {
  block_manager account(6, 4);
  account.offer_swap(3);
  const sequence_id a{{1}, 0}, b{{2}, 0};
  std::vector<block_copy> copies;
  REQUIRE(account.grow(a, 12));
  REQUIRE(account.grow(b, 8));
  REQUIRE(account.swap_out(a, 5, copies)); // its third block holds nothing yet
  CHECK(account.swapped(a) == 2);
  REQUIRE(copies.size() == 2);
  CHECK(copies[0] == block_copy{account.of(a)[0], copies[0].swap_block, true});
  CHECK(copies[1] == block_copy{account.of(a)[1], copies[1].swap_block, true});
  CHECK_FALSE(account.swap_out(b, 8, copies));
  CHECK(copies.size() == 2);
  account.check_integrity();
  account.release(a);
  REQUIRE(account.grow(a, 8));
  std::vector<block_copy> back;
  account.swap_in(a, 4, back); // the first is there already
  CHECK(back == std::vector<block_copy>{{account.of(a)[1], copies[1].swap_block, false}});
  CHECK(account.swap_used() == 0);
  REQUIRE(account.swap_out(b, 8, copies));
  account.forget_swapped(b);
  CHECK(account.swap_used() == 0);
  account.check_integrity();
}

TEST_CASE("without blocks, no sequence grows") {
  block_manager account;
  CHECK_FALSE(account.grow({{1}, 0}, 1));
  account.check_integrity();
}
