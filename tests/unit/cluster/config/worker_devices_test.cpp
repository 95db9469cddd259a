// The GPUs of workers: the machine's in turn, named ones, or none.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/worker_devices.hpp"
#include "cluster/plan/plan_workers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace baton;
using namespace baton::cluster;

namespace {

using names = std::vector<std::string>;

cluster_config read_devices_config(const std::string& text) {
  auto config = parse_config(text, "gpus.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  return *std::move(config);
}

std::string worker_table_of(const std::string& name, const std::string& more) {
  return fmt::format("[[workers]]\nname = \"{}\"\ncommand = [\"a\"]\n{}\n", name, more);
}

// "GPU 0", "CPU" of each worker, by their rank slots.
names devices_of_config(const std::string& text, const names& here) {
  const auto config = read_devices_config(text);
  const auto all = gpus_of_workers(config, gpus_for_workers(config, here));
  REQUIRE_MESSAGE(all, all.error().message);
  names out;
  for (const auto& one : *all)
    out.push_back(one.text());
  return out;
}

error missing_device(const std::string& text, const names& here) {
  const auto config = read_devices_config(text);
  const auto all = gpus_of_workers(config, gpus_for_workers(config, here));
  REQUIRE_FALSE(all);
  return all.error();
}

const names two{"0", "1"}, four{"0", "1", "2", "3"}, no_gpus;

} // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES names the devices of a process") {
  CHECK(devices_named("4, 5") == names{"4", "5"});
  CHECK(devices_named("GPU-8932f937,GPU-d3a1") == names{"GPU-8932f937", "GPU-d3a1"});
  CHECK(devices_named("").empty());
  CHECK(devices_named("-1").empty());
  CHECK(devices_named("NoDevFiles").empty());
  CHECK(devices_named("0,-1,1") == names{"0"}); // as CUDA, which stops there
}

TEST_CASE("workers of all models take the machine's GPUs in turn") {
  const auto text = worker_table_of("a", "count = 3") +
                    worker_table_of("b", "count = 2\ndevice_type = \"cpu\"") +
                    worker_table_of("c", "count = 2\ndevice_type = \"gpu\"");
  CHECK(devices_of_config(text, two) ==
        names{"GPU 0", "GPU 1", "GPU 0", "CPU", "CPU", "GPU 1", "GPU 0"});
  CHECK(devices_of_config(worker_table_of("a", "count = 2"), no_gpus) == names{"CPU", "CPU"});
}

TEST_CASE("a worker's GPU is its number among those visible to the process") {
  const auto config = read_devices_config(worker_table_of("a", "count = 2"));
  const auto all = gpus_of_workers(config, gpus_for_workers(config, {"6", "7"}));
  REQUIRE(all);
  CHECK((*all)[1].gpu_id == 1u);
  CHECK((*all)[1].visible == std::nullopt); // all stay visible, as in TorchServe and Triton
  const auto none = gpus_of_workers(config, gpus_for_workers(config, no_gpus));
  REQUIRE(none);
  CHECK((*none)[0].gpu_id == std::nullopt);
}

TEST_CASE("device_ids are a model's own rotation, where -1 is the CPU") {
  CHECK(devices_of_config(worker_table_of("a", "count = 4\ndevice_ids = [3, 1, -1]"), four) ==
        names{"GPU 3", "GPU 1", "CPU", "GPU 3"});
  CHECK(devices_of_config(worker_table_of("a", "device_ids = []"), four) == names{"CPU"});
  CHECK(devices_of_config(worker_table_of("a", "device_type = \"own\""), four) == names{"its own"});
}

TEST_CASE("GPUs of shards and those beyond number_of_gpu are not assigned") {
  const std::string llm = "[model]\nname = \"m\"\npath = \"m.gguf\"\n"
                          "[[nodes]]\nname = \"here\"\ndevices = [\"cuda:1\"]\n";
  const auto plain = worker_table_of("a", "count = 3");
  CHECK(devices_of_config(llm + plain, four) == names{"GPU 0", "GPU 2", "GPU 3"});
  CHECK(devices_of_config(llm + worker_table_of("a", "device_ids = [1]"), four) == names{"GPU 1"});
  CHECK(devices_of_config("[cluster]\nnumber_of_gpu = 1\n" + plain, four) ==
        names{"GPU 0", "GPU 0", "GPU 0"});
  CHECK(devices_of_config("[cluster]\nnumber_of_gpu = 0\n" + plain, four) ==
        names{"CPU", "CPU", "CPU"});
  CHECK(devices_of_config("[cluster]\nnumber_of_gpu = 9\n" + plain, two)[2] == "GPU 0");
  const auto gpu = worker_table_of("a", "device_type = \"gpu\"");
  CHECK(devices_of_config(llm + gpu, two) == names{"GPU 0"});
  const auto taken = llm.substr(0, llm.rfind(':') + 1) + "0\"]\n" + gpu;
  CHECK(missing_device(taken, {"0"}).message.find("of which 0 are left") != std::string::npos);
  CHECK(devices_of_config(taken, two) == names{"GPU 1"});
}

TEST_CASE("a missing device is an error that names its worker") {
  auto wrong = missing_device(worker_table_of("det", "count = 2\ndevice_ids = [0, 2]"), two);
  CHECK(wrong.code == errc::start_failed);
  CHECK(wrong.message ==
        "worker-det-1 is to have GPU 2 (device_ids): this machine has 2, numbered from 0");
  wrong = missing_device(worker_table_of("det", "device_type = \"gpu\""), no_gpus);
  CHECK(wrong.message == "worker-det-0 is to have a GPU (device_type): this machine has no GPU");
  wrong = missing_device(
      "[cluster]\nnumber_of_gpu = 0\n" + worker_table_of("det", "device_type = \"gpu\""), two);
  CHECK(wrong.message.find("of which 0 are left") != std::string::npos);
  const auto config = read_devices_config(worker_table_of("det", "device_ids = [0]"));
  const auto checked =
      check_workers(config, "my/nodes.toml", gpus_for_workers(config, no_gpus), {});
  REQUIRE_FALSE(checked);
  CHECK(checked.error().message.starts_with("my/nodes.toml: worker-det-0 is to have GPU 0"));
}

TEST_CASE("models loaded later continue the rotation after those of nodes.toml") {
  const auto config = read_devices_config(worker_table_of("a", "count = 2") +
                                          worker_table_of("b", "device_ids = [0]"));
  CHECK(position_of(config, 1, "worker-a-1").rotation_index == 1);
  CHECK(position_of(config, 1, "worker-a-1").number == 1);
  CHECK(position_of(config, 3, "worker-late-0").rotation_index == 2);
  CHECK(position_of(config, 7, "worker-late-4").rotation_index == 6);
}

TEST_CASE("workers of several devices take the next ones, and wrap around") {
  worker_config w;
  w.parallel = parallel_type::custom;
  w.parallel_level = 2;
  const auto visible = [&](std::uint32_t number, const names& here) {
    const auto own = gpus_of(w, {"worker-w-0", number, 0}, gpus_for_workers({}, here));
    REQUIRE_MESSAGE(own, own.error().message);
    return own->visible;
  };
  const names five{"0", "1", "2", "3", "4"};
  CHECK(visible(0, five) == "0,1");
  CHECK(visible(1, five) == "2,3");
  CHECK(visible(2, five) == "0,1");
  CHECK(visible(1, {"6", "7", "8", "9"}) == "8,9");
  CHECK(visible(0, no_gpus) == std::nullopt);
  CHECK(visible(0, {"0"}) == std::nullopt);
  w.device_ids = {2, 3, 0, 1};
  CHECK(visible(1, four) == "0,1");
  CHECK(visible(0, {"a", "b", "c", "d"}) == "c,d");
  w.device_ids->clear();
  CHECK(visible(1, five) == "");
  w.device_ids.reset();
  w.device_type = device_kind::cpu;
  CHECK(visible(0, five) == "");
  w.device_type = device_kind::gpu;
  const auto few = gpus_of(w, {"worker-w-0", 0, 0}, gpus_for_workers({}, {"0"}));
  REQUIRE_FALSE(few);
  CHECK(few.error().message.find("worker-w-0 is to have 2 GPUs") != std::string::npos);
}

TEST_CASE("[[workers]] sets the devices of a worker") {
  const auto wrong = [](const std::string& more) {
    const auto config = parse_config(worker_table_of("w", more), "x.toml");
    REQUIRE_FALSE(config);
    return config.error().param;
  };
  CHECK(read_devices_config(worker_table_of("w", "")).workers[0].device_type ==
        device_kind::automatic);
  CHECK(wrong("device_type = \"tpu\"") == "workers[0].device_type");
  CHECK(wrong("device_type = \"cpu\"\ndevice_ids = [0]") == "workers[0].device_ids");
  CHECK(wrong("device_ids = [-2]") == "workers[0].device_ids");
  CHECK(wrong("device_ids = [1025]") == "workers[0].device_ids");
  CHECK(wrong("device_ids = 0") == "workers[0].device_ids");
  const auto cluster = [](const std::string& keys) {
    const auto config = parse_config("[cluster]\n" + keys + worker_table_of("w", ""), "x.toml");
    REQUIRE_FALSE(config);
    return config.error();
  };
  CHECK(cluster("number_of_gpu = -1\n").param == "cluster.number_of_gpu");
  CHECK(cluster("number_of_gpu = \"2\"\n").param == "cluster.number_of_gpu");
  CHECK(cluster("cpu_launcher_args = \"--node-id 0\"\n").message.find("cpu_launcher_enable") !=
        std::string::npos);
  CHECK(cluster("cpu_launcher_enable = true\ncpu_launcher_args = \"--rank 1\"\n")
            .message.find("--rank: TorchServe sets it itself") != std::string::npos);
}
