// The controller of worker models while its thread is stuck.
#include "cluster/models/model_controller.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <future>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("changes of models that a stuck controller cannot take are refused as overloaded") {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("controller-test-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  const cluster_config config;
  auto made = model_controller::create(config, *dir);
  REQUIRE(made);
  auto& models = **made;
  std::promise<void> is_stuck, may_go_on;
  std::atomic<int> publications = 0;
  std::atomic<std::size_t> overloaded = 0, conflicts = 0;
  model_controller::outside to;
  to.publish = [&](const served_models&) {
    if (publications++ > 0)
      return;
    is_stuck.set_value();
    may_go_on.get_future().wait();
  };
  to.changed = [] {};
  to.answer = [&](process_id, const model_changed& m) {
    REQUIRE(m.failure);
    ++(m.failure->code == errc::overloaded ? overloaded : conflicts);
  };
  models.begin(std::move(to));
  models.on_gateway();
  is_stuck.get_future().wait();
  const std::size_t sent = 70'000; // beyond the bound of the queue
  change_model order;
  order.model = "m";
  for (order.request = 1; order.request <= sent; ++order.request)
    models.change(process_id{1}, order);
  CHECK(overloaded > 0);
  models.on_gateway();
  models.on_drained(0, 1);
  models.on_ready(process_id{1});
  models.on_gone(process_id{1}); // this process's own events still have room
  may_go_on.set_value();
  while (publications < 2 || overloaded + conflicts < sent)
    std::this_thread::yield();
  models.stop();
  CHECK(overloaded + conflicts == sent);
  std::filesystem::remove_all(path);
}
