// When `cluster up` says that the cluster is ready.
#include "cluster/roles/root/progress.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

status member(role as, double progress) {
  status s;
  s.role = as;
  s.phase = phase::ready;
  s.progress = progress;
  return s;
}

} // namespace

TEST_CASE("a cluster takes requests once every gateway knows that the shards are ready") {
  cluster_status now;
  now.phase = phase::ready;
  now.nodes = {member(role::head, 0), member(role::gateway, 1), member(role::gateway, 0)};
  CHECK_FALSE(takes_requests(now));
  now.nodes.back().progress = 1;
  CHECK(takes_requests(now));
  now.phase = phase::loading;
  CHECK_FALSE(takes_requests(now));
}
