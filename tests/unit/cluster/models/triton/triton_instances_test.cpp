// instance_group of config.pbtxt: the number of workers, and the device of each.
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/models/triton/triton_import.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;

namespace {

using ids = std::vector<std::int32_t>;

triton_model instances_model(const std::string& groups, std::uint32_t gpus) {
  triton_model of{"repo/m", "backend: \"python\"\n" + groups, {1}, ""};
  of.gpus = gpus;
  return of;
}

worker_config worker_of_groups(const std::string& groups, std::uint32_t gpus) {
  const auto made = import_triton_worker(instances_model(groups, gpus));
  REQUIRE_MESSAGE(made, made.error().message);
  auto worker = parse_worker(made->toml, "m");
  REQUIRE_MESSAGE(worker, worker.error().message, "\n", made->toml);
  return *std::move(worker);
}

bool groups_mention(const std::string& groups, std::string_view what) {
  const auto made = import_triton_worker(instances_model(groups, 0));
  REQUIRE_MESSAGE(made, made.error().message);
  return std::any_of(made->notes.begin(), made->notes.end(),
                     [&](const auto& n) { return n.find(what) != std::string::npos; });
}

std::string groups_refusal(const std::string& groups) {
  const auto made = import_triton_worker(instances_model(groups, 2));
  REQUIRE_FALSE(made);
  return made.error().message;
}

} // namespace

TEST_CASE("without a group each GPU has an instance, and the CPU where there is none") {
  for (const auto* groups : {"", "instance_group [{ kind: KIND_AUTO }]", "instance_group {}"}) {
    CAPTURE(groups);
    const auto none = worker_of_groups(groups, 0);
    CHECK(none.count == 1);
    CHECK(none.device_type == device_kind::automatic);
    const auto four = worker_of_groups(groups, 4);
    CHECK(four.count == 4);
    CHECK(four.device_type == device_kind::automatic);
    CHECK(four.device_ids == std::nullopt);
  }
}

TEST_CASE("count is per GPU") {
  const auto all = worker_of_groups("instance_group [{ kind: KIND_GPU count: 2 }]", 3);
  CHECK(all.count == 6);
  CHECK(all.device_type == device_kind::gpu);
  const auto named =
      worker_of_groups("instance_group [{ kind: KIND_GPU count: 2 gpus: [ 0, 2 ] }]", 3);
  CHECK(named.count == 4);
  CHECK(named.device_ids == ids{0, 0, 2, 2});
  const auto none = worker_of_groups("instance_group [{ kind: KIND_GPU count: 2 }]", 0);
  CHECK(none.count == 2);
  CHECK(none.device_type == device_kind::gpu); // the machine reports that it has none
  CHECK(worker_of_groups("instance_group [{ kind: KIND_GPU gpus: [ 5 ] }]", 0).device_ids ==
        ids{5});
}

TEST_CASE("KIND_CPU and KIND_MODEL have their number of instances") {
  const auto cpu = worker_of_groups("instance_group [{ kind: KIND_CPU count: 3 }]", 4);
  CHECK(cpu.count == 3);
  CHECK(cpu.device_type == device_kind::cpu);
  const auto own = worker_of_groups("instance_group [{ kind: KIND_MODEL count: 2 }]", 4);
  CHECK(own.count == 2);
  CHECK(own.device_type == device_kind::own);
  const auto two =
      worker_of_groups("instance_group [{ kind: KIND_CPU count: 2 }, { kind: KIND_CPU }]", 4);
  CHECK(two.count == 3);
  CHECK(two.device_type == device_kind::cpu);
}

TEST_CASE("KIND_AUTO is on the CPU if a GPU that it names is missing") {
  const std::string groups = "instance_group [{ count: 2 gpus: [ 0, 1 ] }]";
  CHECK(worker_of_groups(groups, 2).device_ids == ids{0, 0, 1, 1});
  const auto one = worker_of_groups(groups, 1);
  CHECK(one.count == 2);
  CHECK(one.device_type == device_kind::cpu);
}

TEST_CASE("several groups place each worker") {
  const std::string groups = "instance_group [{ kind: KIND_GPU count: 1 gpus: [ 0 ] },"
                             "{ kind: KIND_GPU count: 2 gpus: [ 1 ] }, { kind: KIND_CPU }]";
  const auto both = worker_of_groups(groups, 2);
  CHECK(both.count == 4);
  CHECK(both.device_ids == ids{0, 1, 1, -1});
  const auto all = worker_of_groups("instance_group [{ kind: KIND_GPU }, { kind: KIND_CPU }]", 3);
  CHECK(all.device_ids == ids{0, 1, 2, -1});
}

TEST_CASE("fields of a group without effect here give a reason") {
  CHECK(groups_mention("instance_group [{ profile: \"1\" }]", "profile is left out"));
  CHECK(groups_mention("instance_group [{ rate_limiter { priority: 2 } }]",
                       "rate_limiter is left out"));
  CHECK(groups_mention("instance_group [{ secondary_devices [{ device_id: 0 }] }]",
                       "secondary_devices is left out"));
  CHECK(groups_mention("instance_group [{ host_policy: \"p\" }]", "host_policy is left out"));
  CHECK(groups_mention("instance_group [{ passive: true }]", "passive = true"));
  CHECK(groups_mention("instance_group [{ colour: 1 }]", "colour IS NOT KNOWN"));
  CHECK(groups_mention("instance_group [{ name: \"a\" }]", "name is left out"));
  CHECK_FALSE(groups_mention("instance_group [{ count: 1 kind: KIND_CPU }]", "group"));
}

TEST_CASE("contradictions in a group are refused as by Triton") {
  CHECK(groups_refusal("instance_group [{ kind: KIND_CPU gpus: [ 0 ] }]")
            .find("has kind KIND_CPU but specifies one or more GPUs") != std::string::npos);
  CHECK(groups_refusal("instance_group [{ kind: KIND_MODEL gpus: [ 0 ] }]").find("KIND_MODEL") !=
        std::string::npos);
  CHECK(groups_refusal("instance_group [{ kind: KIND_TPU }]").find("m.instance_group.kind") !=
        std::string::npos);
  CHECK(groups_refusal("instance_group [{ gpus: [ -1 ] }]").find("m.instance_group.gpus") !=
        std::string::npos);
  CHECK(groups_refusal("instance_group [{ kind: KIND_GPU count: 600 }]").find("at most 1024") !=
        std::string::npos);
  CHECK(groups_refusal("instance_group: 1").find("instance_group") != std::string::npos);
}
