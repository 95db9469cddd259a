// The configuration of a worker model that another process names.
#include "cluster/models/models_record.hpp"
#include "cluster/plan/worker_slots.hpp"
#include "tests/support/scratch_directory.hpp"

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

TEST_CASE("a record with a state that this build does not know counts as none") {
  const baton::testing::scratch_directory scratch;
  const auto dir = run_dir::open(scratch / "run");
  REQUIRE(dir);
  cluster_config config;
  config.repository.emplace();
  recorded_models now;
  now.all.push_back({one_served(true, "").all[0], 7, {}});
  now.all[0].model.archive.clear();
  REQUIRE(record_models(*dir, now));
  CHECK(read_recorded_models(config, *dir));
  now.all[0].model.state = static_cast<model_state>(9);
  REQUIRE(record_models(*dir, now));
  CHECK_FALSE(read_recorded_models(config, *dir));
}
