// The account of KV blocks.
#include "runtime/schedule/blocks.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;
using namespace baton::schedule;

TEST_CASE("a sequence grows by whole blocks and gives all of them back") {
  block_account account(5, 4);
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
  block_account account(3, 4);
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

TEST_CASE("an account of no blocks grows nobody") {
  block_account account;
  CHECK_FALSE(account.grow({{1}, 0}, 1));
  account.check_integrity();
}
