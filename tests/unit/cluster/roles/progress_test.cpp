// When `cluster up` says that the cluster is ready.
#include "cluster/roles/root/drain_watch.hpp"
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

// One gateway that is in this phase.
std::vector<status> gateway_in(phase now) {
  auto s = member(role::gateway, 1);
  s.process = process_ids::gateway(0);
  s.name = "gateway";
  s.phase = now;
  return {s};
}

std::string loss_between(phase before, phase then) {
  drain_watch drain;
  drain.begin(gateway_in(before));
  drain.observe(gateway_in(then));
  return drain.loss();
}

} // namespace

TEST_CASE("a gateway that was away when the drain began has lost no stream") {
  CHECK(loss_between(phase::starting, phase::starting).empty());
  CHECK(loss_between(phase::recovering, phase::starting).empty());
  CHECK(loss_between(phase::ready, phase::draining).empty());
  CHECK(loss_between(phase::ready, phase::stopped).empty());
  CHECK(loss_between(phase::ready, phase::recovering) == "gateway was lost while it drained");
}

TEST_CASE("a gateway that was away does not hide the loss of another one") {
  const auto two = [](phase first, phase second) {
    auto all = gateway_in(first);
    all.push_back(gateway_in(second)[0]);
    all[1].process = process_ids::gateway(1);
    all[1].name = "gateway-1";
    return all;
  };
  drain_watch drain;
  drain.begin(two(phase::ready, phase::starting));
  drain.observe(two(phase::recovering, phase::starting));
  CHECK(drain.loss() == "gateway was lost while it drained");
}

TEST_CASE("before the drain no loss counts") {
  drain_watch drain;
  drain.observe(gateway_in(phase::recovering));
  CHECK(drain.loss().empty());
}

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
