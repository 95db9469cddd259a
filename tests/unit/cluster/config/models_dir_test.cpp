// Directories of models: what is found in them, and how it is written down for the processes of a
// cluster.
#include "cluster/config/config.hpp"
#include "cluster/config/models_dir.hpp"
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_text.hpp"
#include "cluster/files/run_dir.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>

using namespace baton;
using namespace baton::cluster;

namespace fs = std::filesystem;
using baton::testing::scratch_directory;

namespace {

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << file.filename().string();
}

std::vector<std::string> names_of(const cluster_config& config) {
  std::vector<std::string> all;
  for (const auto& m : config.models)
    all.push_back(m.name);
  return all;
}

// Why the path is passed over; empty: it is not.
std::string why_not(const std::vector<passed_over_model>& all, const std::string& end) {
  for (const auto& each : all)
    if (each.path.string().ends_with(end))
      return each.why;
  return "";
}

std::string table_of(const fs::path& dir, const std::string& more = "") {
  return fmt::format("[model]\nmodels_dir = '{}'\n{}", dir.string(), more);
}

std::string dir_refusal(const std::string& text) {
  const auto config = parse_config(text, "x.toml");
  REQUIRE_FALSE(config);
  CHECK(config.error().code == errc::bad_config);
  return config.error().message;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("each GGUF file and each directory with a model is one, parts are one, and mmproj none") {
  const scratch_directory dir;
  for (const auto* file : {"b.gguf",
                           "a.Q4_K_M.gguf",
                           "big-00001-of-00002.gguf",
                           "big-00002-of-00002.gguf",
                           "mmproj-b-F16.gguf",
                           "x.MMPROJ.gguf",
                           "README.md",
                           ".hidden.gguf",
                           "torn-00002-of-00003.gguf",
                           "torn-00003-of-00003.gguf",
                           "loading.gguf.part",
                           "checkpoint/config.json",
                           "checkpoint/model.safetensors",
                           "vision/vision-Q8_0.gguf",
                           "vision/mmproj-vision.gguf",
                           "parts/p-00001-of-00002.gguf",
                           "parts/p-00002-of-00002.gguf",
                           "two/one.gguf",
                           "two/other.gguf",
                           "notes/read.txt",
                           ".cache/c.gguf"})
    touch(dir.path() / file);
  const auto found = look_into(dir.path());
  REQUIRE_MESSAGE(found, found.error().message);
  CHECK(found->files ==
        std::vector<std::string>{"a.Q4_K_M.gguf", "b.gguf", "big-00001-of-00002.gguf", "checkpoint",
                                 "parts/p-00001-of-00002.gguf", "vision/vision-Q8_0.gguf"});
  CHECK(has(why_not(found->passed_over, "/mmproj-b-F16.gguf"), "mmproj"));
  CHECK(has(why_not(found->passed_over, "/x.MMPROJ.gguf"), "mmproj"));
  CHECK(has(why_not(found->passed_over, "/mmproj-vision.gguf"), "mmproj"));
  CHECK(why_not(found->passed_over, "/torn-00002-of-00003.gguf") == "part 1 of 3 is missing");
  CHECK(has(why_not(found->passed_over, "/two"), "holds 2 models"));
  CHECK(found->passed_over.size() == 5);
  CHECK(name_of_file("a.Q4_K_M.gguf") == "a.Q4_K_M");
  CHECK(name_of_file("big-00001-of-00002.gguf") == "big");
  CHECK(name_of_file("vision/vision-Q8_0.gguf") == "vision");
  CHECK(name_of_file("checkpoint") == "checkpoint");
}

TEST_CASE("two files of one name are one model, and the other says so") {
  const scratch_directory dir;
  for (const auto* file : {"a b.gguf", "a+b.gguf", "c.gguf", "c/config.json"})
    touch(dir.path() / file);
  const auto found = look_into(dir.path());
  REQUIRE(found);
  CHECK(found->files == std::vector<std::string>{"a b.gguf", "c"});
  CHECK(why_not(found->passed_over, "/a+b.gguf") == "a b.gguf is the model 'a-b' already");
  CHECK(why_not(found->passed_over, "/c.gguf") == "c is the model 'c' already");
}

TEST_CASE("a directory has a bounded number of models") {
  const scratch_directory dir;
  for (std::size_t i = 0; i < models_of_dir_max; ++i)
    touch(dir.path() / fmt::format("m{}.gguf", i));
  const auto config = parse_config(table_of(dir.path()), "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->models.size() == models_of_dir_max);
  touch(dir.path() / "one-more.gguf");
  const auto refused = dir_refusal(table_of(dir.path()));
  CHECK(has(refused, "x.toml: model.models_dir: "));
  CHECK(has(refused, fmt::format("has {} models, and a cluster has at most {}",
                                 models_of_dir_max + 1, models_of_dir_max)));
  CHECK(parse_config(table_of(dir.path(), "files = [\"m1.gguf\"]"), "x.toml"));
}

TEST_CASE("the models of a directory are loaded on demand, with the settings of its table") {
  const scratch_directory dir;
  for (const auto* file : {"a.gguf", "b.gguf"})
    touch(dir.path() / file);
  const auto config = parse_config(
      table_of(dir.path(), "idle_timeout = 7\nkv_cache_bytes = \"64MiB\"\n[model.sampling]\n"
                           "temperature = 0.5\n"),
      "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(names_of(*config) == std::vector<std::string>{"a", "b"});
  for (const auto& m : config->models) {
    CHECK(m.loads_on_demand);
    CHECK(m.idle_timeout == std::chrono::seconds(7));
    CHECK(m.kv_cache_bytes == 64u << 20);
    CHECK(m.sampling.temperature == 0.5F);
    CHECK(m.models_dir == dir.path());
  }
  CHECK(config->models[1].path == dir.path() / "b.gguf");
  CHECK(config->nodes.at(0).devices.size() == 1);
  CHECK(on_demand_pipelines(*config).size() == 2);
}

TEST_CASE("a model with a table of its own wins over a directory's") {
  const scratch_directory dir;
  for (const auto* file : {"a.gguf", "b.gguf", "c.gguf", "other/a.gguf", "more/c.gguf"})
    touch(dir.path() / file);
  const auto text = fmt::format(R"(
[[models]]
models_dir = '{0}'
files = ["a.gguf", "b.gguf", "c.gguf"]
[[models]]
models_dir = '{0}/more'
[[models]]
name = "a"
path = '{0}/other/a.gguf'
[[models]]
name = "mine"
path = '{0}/./b.gguf'
load = "on-demand"
pin = true
)",
                                dir.path().string());
  const auto config = parse_config(text, "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(names_of(*config) == std::vector<std::string>{"c", "a", "mine"});
  CHECK(config->models[0].path == dir.path() / "c.gguf");
  CHECK_FALSE(config->models[1].loads_on_demand);
  CHECK(config->models[2].is_pinned);
  CHECK(has(why_not(config->passed_over, "/more/c.gguf"), "is the model 'c' already"));
}

TEST_CASE("mistakes in the table of a directory name their key") {
  const scratch_directory dir;
  touch(dir.path() / "a.gguf");
  fs::create_directories(dir.path() / "empty");
  touch(dir.path() / "vision/mmproj.gguf");
  for (const auto& [more, part] : {
           std::pair{"name = \"x\"", "model.name is for one model"},
           std::pair{"path = \"x.gguf\"", "model.path is for one model"},
           std::pair{"aliases = [\"x\"]", "model.aliases is for one model"},
           std::pair{"pin = true", "model.pin is for one model"},
           std::pair{"load = \"always\"", "model.load must be \"on-demand\" with models_dir"},
           std::pair{"replicas = 2", "model.replicas must be 1"},
           std::pair{"files = [\"../a.gguf\"]", "model.files has '../a.gguf'"},
           std::pair{"files = [\"/a.gguf\"]", "model.files has '/a.gguf'"},
           std::pair{"files = [\"a/b/c.gguf\"]", "model.files has 'a/b/c.gguf'"},
           std::pair{"files = [\"a.gguf\", \"a.gguf\"]", "model.files: two models are named 'a'"},
       }) {
    CAPTURE(more);
    CHECK(has(dir_refusal(table_of(dir.path(), more)), part));
  }
  CHECK(has(dir_refusal("[model]\nmodels_dir = \"\"\n"), "model.models_dir is empty"));
  CHECK(has(dir_refusal("[model]\nname = \"x\"\npath = \"a\"\nfiles = []\n"),
            "model.files needs models_dir"));
  CHECK(has(dir_refusal(table_of(dir.path() / "gone")), "No such file or directory"));
  CHECK(has(dir_refusal(table_of(dir.path() / "a.gguf")), "Not a directory"));
  CHECK(has(dir_refusal(table_of(dir.path() / "empty")), "holds no model that can be served"));
  const auto only_vision = dir_refusal(table_of(dir.path() / "vision"));
  CHECK(has(only_vision, "model.models_dir: "));
  CHECK(has(only_vision, "; mmproj.gguf: models here read text"));
  const auto twice = fmt::format("[[models]]\nmodels_dir = '{0}'\n[[models]]\nmodels_dir = '{0}'\n",
                                 dir.path().string());
  CHECK(has(dir_refusal(twice), "models[1].models_dir"));
}

TEST_CASE("the text for the processes of a cluster names the files that were found") {
  const scratch_directory dir;
  for (const auto* file :
       {"a.gguf", "it's \"b\".gguf", "c/c-00001-of-00002.gguf", "c/c-00002-of-00002.gguf"})
    touch(dir.path() / file);
  const auto text = table_of(dir.path(), "kv_cache_bytes = \"64MiB\"\n[gateway]\nhttp = \"\"\n");
  auto config = parse_config(text, "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  REQUIRE(names_of(*config) == std::vector<std::string>{"a", "c", "it-s--b-"});
  REQUIRE(pass_over(*config, {{0, fail(errc::bad_model_file, "it is broken")}}));
  CHECK(why_not(config->passed_over, "/a.gguf") == "it is broken");
  const auto named = with_files(text, "x.toml", *config);
  REQUIRE_MESSAGE(named, named.error().message);
  fs::remove_all(dir.path()); // it is not looked at any more
  const auto again = parse_config(*named, "x.toml");
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK(again->models == config->models);
  CHECK(again->passed_over.empty());
  CHECK(with_files(*named, "x.toml", *again).value() == *named);
  const std::string without = "[model] # kept\nname = \"x\"\npath = \"a\"\n";
  CHECK(with_files(without, "x.toml", *parse_config(without, "x.toml")).value() == without);
}

TEST_CASE("without any model of its directories a cluster does not start") {
  const scratch_directory dir;
  touch(dir.path() / "a.gguf");
  auto config = parse_config(table_of(dir.path()), "x.toml");
  REQUIRE(config);
  const auto refused = pass_over(*config, {{0, fail(errc::bad_model_file, "it is broken")}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_config);
  CHECK(has(refused.error().message, "model.models_dir: no model there can be served"));
  CHECK(has(refused.error().message, "it is broken"));
}

TEST_CASE("a cluster that runs keeps the models of its start, and the next start finds new ones") {
  const scratch_directory dir;
  touch(dir.path() / "models/a.gguf");
  const auto file = dir.path() / "x.toml";
  const auto text = fmt::format("[cluster]\nrun_dir = '{}'\n{}", (dir.path() / "run").string(),
                                table_of(dir.path() / "models"));
  std::ofstream(file) << text;
  const auto first = load_config(file);
  REQUIRE_MESSAGE(first, first.error().message);
  const auto run = run_dir::open(dir.path() / "run");
  REQUIRE(run);
  REQUIRE(run->write("nodes.toml", with_files(text, "x.toml", *first).value()));
  touch(dir.path() / "models/b.gguf");
  CHECK(names_of(*load_config(file)) == std::vector<std::string>{"a", "b"});
  REQUIRE(run->record("root", incarnation_id{1})); // this process
  CHECK(names_of(*load_config(file)) == std::vector<std::string>{"a"});
  run->forget("root");
  CHECK(names_of(*load_config(file)) == std::vector<std::string>{"a", "b"});
}
