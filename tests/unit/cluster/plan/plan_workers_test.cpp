// Worker models in the plan's text: as in nodes.toml, and none without.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/plan_workers.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::cluster;
using nlohmann::ordered_json;

namespace {

cluster_config read_workers_config(const std::string& text) {
  auto config = parse_config(text, "alone.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  return *std::move(config);
}

ordered_json json_of(const cluster_config& config) {
  ordered_json plan;
  add_workers(plan, config, gpus_for_workers(config, {"0", "1", "2"}));
  return plan;
}

std::string text_of(const cluster_config& config) {
  return workers_text(config, gpus_for_workers(config, {"0", "1", "2"}));
}

} // namespace

TEST_CASE("each worker model has a line, with its processes and batches") {
  const auto config = read_workers_config(R"(
[[workers]]
name = "echo"
command = ["python3", "echo.py"]
count = 2
batch_size = 8
max_batch_delay = 0.02
[[workers]]
name = "sum"
version = "3"
command = ["./sum"]
[[workers]]
name = "ranks"
command = ["./ranks"]
count = 2
parallel_type = "tp"
parallel_level = 4
[[workers]]
name = "devices"
command = ["./devices"]
parallel_type = "custom"
parallel_level = 2
)");
  const auto text = text_of(config);
  CHECK_MESSAGE(text.find("8 in 20 ms  GPU 0; GPU 1  python3 echo.py\n") != std::string::npos,
                text);
  CHECK(text.find("\n  sum                  3                  1              1  GPU 2         "
                  "./sum\n") != std::string::npos);
  CHECK(text.find("2 of 4 (tp)              1  its own       ./ranks\n") != std::string::npos);
  CHECK(text.find("          1              1  GPU 0, 1      ./devices\n") != std::string::npos);
  const auto all = json_of(config)["workers"];
  REQUIRE(all.size() == 4);
  CHECK_FALSE(all[0].contains("parallel_type"));
  CHECK(all[2]["parallel_type"] == "tp");
  CHECK(all[2]["parallel_level"] == 4);
  CHECK(all[3]["parallel_type"] == "custom");
  CHECK(all[0]["command"] == ordered_json{"python3", "echo.py"});
  CHECK(all[0]["count"] == 2);
  CHECK(all[0]["max_batch_delay"] == 0.02);
  CHECK(all[0]["devices"] == ordered_json{"GPU 0", "GPU 1"});
  CHECK(all[3]["devices"] == ordered_json::array({"GPU 0, 1"}));
  CHECK(all[1]["version"] == "3");
}

TEST_CASE("directories with changing models are listed") {
  auto config =
      read_workers_config("[model_repository]\npath = \"models\"\ncontrol_mode = \"explicit\"\n");
  CHECK(text_of(config).find("model repository models (control_mode explicit)") !=
        std::string::npos);
  CHECK(json_of(config) ==
        ordered_json::parse(
            R"({"model_repository": {"path": "models", "control_mode": "explicit"}})"));
  config = read_workers_config("[model_store]\npath = \"store\"\n");
  CHECK(text_of(config).find("model store store: ") != std::string::npos);
  CHECK(json_of(config)["model_store"]["path"] == "store");
}

TEST_CASE("without worker models the text is empty") {
  CHECK(text_of(cluster_config()).empty());
  CHECK(json_of(cluster_config()).is_null());
}
