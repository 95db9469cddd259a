// The configuration of a worker model that another process names.
#include "cluster/models/models_record.hpp"
#include "cluster/plan/worker_slots.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

served_models one_served(bool is_of_repository, std::string config) {
  served_model m;
  m.name = "m";
  m.revision = 3;
  m.is_of_repository = is_of_repository;
  m.config = std::move(config);
  m.workers.push_back({process_ids::worker(0), "worker-m-0", 0});
  served_models all;
  all.all.push_back(std::move(m));
  return all;
}

} // namespace

TEST_CASE("a served model whose configuration this process lacks or cannot read is an error") {
  const auto broken = one_served(true, "batch_size = \"of another build\"");
  const auto unknown = one_served(false, "");
  const cluster_config config;
  const auto unreadable = config_of(config, broken.all[0]);
  REQUIRE_FALSE(unreadable);
  CHECK(unreadable.error().code == errc::bad_config);
  const auto absent = config_of(config, unknown.all[0]);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == errc::not_found);
  for (const auto* all : {&broken, &unknown}) {
    CHECK(workers_of(config, *all).empty());
    CHECK_FALSE(find_worker(config, *all, process_ids::worker(0)));
  }
  CHECK_FALSE(find_worker(config, {}, process_ids::worker(0)));
}
