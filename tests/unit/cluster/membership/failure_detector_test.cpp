// Detection of lost machines.
#include "cluster/membership/failure_detector.hpp"

#include <doctest/doctest.h>

using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

const failure_detector::time_point absence_start{};
using names = std::set<std::string>;

// With b and c both present and an epoch open.
failure_detector settled() {
  failure_detector detector({"b", "c"}, {10s, 600s}, absence_start);
  detector.on_connected("b");
  detector.on_connected("c");
  detector.on_serving(true, absence_start);
  return detector;
}

} // namespace

TEST_CASE("a machine that is away for its timeout, while nothing is served, is lost") {
  auto detector = settled();
  detector.on_disconnected("b", absence_start + 5s);
  detector.on_serving(false, absence_start + 5s);
  CHECK(detector.lost(absence_start + 14s).empty());
  CHECK(detector.lost(absence_start + 15s) == names{"b"});
  detector.on_disconnected("c", absence_start + 8s);
  detector.on_disconnected("c", absence_start + 17s); // already known
  CHECK(detector.lost(absence_start + 18s) == names{"b", "c"});
  detector.on_connected("b");
  CHECK(detector.lost(absence_start + 18s) == names{"c"});
}

TEST_CASE("while an epoch is open no machine is missed, and the time starts when it closes") {
  auto detector = settled();
  detector.on_disconnected("b", absence_start);
  CHECK(detector.lost(absence_start + 100s).empty());
  detector.on_serving(false, absence_start + 100s); // for example because the head was lost
  CHECK(detector.lost(absence_start + 109s).empty());
  detector.on_serving(true, absence_start + 109s);
  CHECK(detector.lost(absence_start + 200s).empty());
  detector.on_serving(false, absence_start + 200s);
  detector.on_serving(false, absence_start + 209s); // repeated
  CHECK(detector.lost(absence_start + 210s) == names{"b"});
}

TEST_CASE("a machine that has not joined yet has another timeout") {
  failure_detector detector({"b"}, {10s, 600s}, absence_start);
  CHECK(detector.lost(absence_start + 599s).empty());
  CHECK(detector.lost(absence_start + 600s) == names{"b"});
  detector.on_connected("b");
  detector.on_disconnected("b", absence_start + 20s);
  CHECK(detector.lost(absence_start + 30s) == names{"b"});
}

TEST_CASE("without a timeout all are waited for, and nodes of this machine are not tracked") {
  failure_detector detector({"b"}, {0s, 600s}, absence_start);
  detector.on_connected("b");
  detector.on_disconnected("b", absence_start);
  CHECK(detector.lost(absence_start + 1h).empty());
  auto settled_one = settled();
  settled_one.on_serving(false, absence_start);
  settled_one.on_disconnected("a", absence_start);
  CHECK(settled_one.lost(absence_start + 1h).empty());
}

TEST_CASE("a node may be added and removed") {
  auto detector = settled();
  detector.on_serving(false, absence_start);
  detector.add("d", absence_start + 50s);
  CHECK(detector.lost(absence_start + 649s).empty());
  CHECK(detector.lost(absence_start + 650s) == names{"d"});
  detector.on_disconnected("c", absence_start + 100s);
  detector.remove("d");
  CHECK(detector.lost(absence_start + 700s) == names{"c"});
  detector.remove("c");
  CHECK(detector.lost(absence_start + 700s).empty());
  detector.on_disconnected("c", absence_start + 700s); // not a node
  CHECK(detector.lost(absence_start + 900s).empty());
}
