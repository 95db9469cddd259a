// Which machines the cluster has to do without.
#include "cluster/plan/absence_book.hpp"

#include <doctest/doctest.h>

using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

const absence_book::time_point absence_start{};
using names = std::set<std::string>;

// Of b and c, both here, where an epoch is open.
absence_book settled() {
  absence_book book({"b", "c"}, {10s, 600s}, absence_start);
  book.on_here("b");
  book.on_here("c");
  book.on_serving(true, absence_start);
  return book;
}

} // namespace

TEST_CASE("who is away for its time, while nothing is served, is lost") {
  auto book = settled();
  book.on_away("b", absence_start + 5s);
  book.on_serving(false, absence_start + 5s);
  CHECK(book.lost(absence_start + 14s).empty());
  CHECK(book.lost(absence_start + 15s) == names{"b"});
  book.on_away("c", absence_start + 8s);
  book.on_away("c", absence_start + 17s); // it is known already
  CHECK(book.lost(absence_start + 18s) == names{"b", "c"});
  book.on_here("b");
  CHECK(book.lost(absence_start + 18s) == names{"c"});
}

TEST_CASE("while an epoch is open nobody is missed, and none counts before it closed") {
  auto book = settled();
  book.on_away("b", absence_start);
  CHECK(book.lost(absence_start + 100s).empty());
  book.on_serving(false, absence_start + 100s); // the head was lost, say
  CHECK(book.lost(absence_start + 109s).empty());
  book.on_serving(true, absence_start + 109s);
  CHECK(book.lost(absence_start + 200s).empty());
  book.on_serving(false, absence_start + 200s);
  book.on_serving(false, absence_start + 209s); // said again
  CHECK(book.lost(absence_start + 210s) == names{"b"});
}

TEST_CASE("who has not come yet has another patience") {
  absence_book book({"b"}, {10s, 600s}, absence_start);
  CHECK(book.lost(absence_start + 599s).empty());
  CHECK(book.lost(absence_start + 600s) == names{"b"});
  book.on_here("b");
  book.on_away("b", absence_start + 20s);
  CHECK(book.lost(absence_start + 30s) == names{"b"});
}

TEST_CASE("without a patience all are waited for, and nodes of this machine are not in the book") {
  absence_book book({"b"}, {0s, 600s}, absence_start);
  book.on_here("b");
  book.on_away("b", absence_start);
  CHECK(book.lost(absence_start + 1h).empty());
  auto settled_one = settled();
  settled_one.on_serving(false, absence_start);
  settled_one.on_away("a", absence_start);
  CHECK(settled_one.lost(absence_start + 1h).empty());
}

TEST_CASE("a node may come to be and be removed") {
  auto book = settled();
  book.on_serving(false, absence_start);
  book.add("d", absence_start + 50s);
  CHECK(book.lost(absence_start + 649s).empty());
  CHECK(book.lost(absence_start + 650s) == names{"d"});
  book.on_away("c", absence_start + 100s);
  book.remove("d");
  CHECK(book.lost(absence_start + 700s) == names{"c"});
  book.remove("c");
  CHECK(book.lost(absence_start + 700s).empty());
  book.on_away("c", absence_start + 700s); // nobody's
  CHECK(book.lost(absence_start + 900s).empty());
}
