#include "cluster/config/readers/config_workers.hpp"
#include "cluster/models/repository_scan.hpp"
#include "cluster/models/triton/triton_versions.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

using namespace baton;
using namespace baton::cluster;

namespace {

namespace fs = std::filesystem;

repository_directory directory(std::string name, std::string config,
                               std::vector<std::uint32_t> versions = {1}) {
  repository_directory d;
  d.model.directory = "repository/" + name;
  d.name = std::move(name);
  d.model.config = std::move(config);
  for (const auto v : versions) {
    d.digests[v] = 100 + v;
    d.chosen.emplace(v, triton_model{d.model.directory, d.model.config, {v}});
  }
  d.model.versions = std::move(versions);
  return d;
}

scanned_version only(const scanned_models& all, const std::string& name) {
  const auto at = all.find(name);
  REQUIRE(at != all.end());
  REQUIRE(at->second.size() == 1);
  return at->second.front();
}

// Removed with it.
struct temporary {
  fs::path path;
  explicit temporary(const std::string& name = "repository")
      : path(fs::temp_directory_path() / fmt::format("baton_{}_{}", name, getpid())) {
    fs::create_directories(path);
  }
  ~temporary() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
};

} // namespace

TEST_CASE("a model of the Python backend is a [[workers]] table of its newest version") {
  const auto all = scan_repository({directory("add", "backend: \"python\"", {1, 3})}, {});
  const auto v = only(all, "add");
  CHECK(v.refusal.empty());
  CHECK(v.version == "3");
  CHECK(v.digest == 103);
  CHECK(v.worker.name == "add");
  CHECK(v.worker.version == "3");
  CHECK(v.worker.command.back() == "repository/add/3/model.py");
}

TEST_CASE("the versions chosen by version_policy are served, each separately") {
  const auto chosen = [](const std::string& policy) {
    return chosen_versions("version_policy: { " + policy + " }", {1, 3, 10}, "m");
  };
  CHECK(*chosen_versions("", {1, 3, 10}, "m") == std::vector<std::uint32_t>{10});
  CHECK(*chosen("latest { num_versions: 2 }") == std::vector<std::uint32_t>{3, 10});
  CHECK(*chosen("latest { num_versions: 9 }") == std::vector<std::uint32_t>{1, 3, 10});
  CHECK(*chosen("all { }") == std::vector<std::uint32_t>{1, 3, 10});
  CHECK(*chosen("specific { versions: [1, 10, 11] }") == std::vector<std::uint32_t>{1, 10});
  CHECK_FALSE(chosen("specific { versions: [2] }"));
  CHECK_FALSE(chosen("latest { num_versions: \"x\" }"));
  const auto all = scan_repository(
      {directory("m", "backend: \"python\" version_policy { all {} }", {1, 2})}, {});
  REQUIRE(all.at("m").size() == 2);
  CHECK(all.at("m")[0].table.find("version_policy = \"all\"") != std::string::npos);
  CHECK(all.at("m")[0].worker.version == "1");
  CHECK(all.at("m")[0].worker.version_policy.is_all);
  CHECK(all.at("m")[1].worker.command.back() == "repository/m/2/model.py");
}

TEST_CASE("a version_policy means the same in config.pbtxt and in [[workers]]") {
  using policy = gateway::version_policy;
  const struct {
    std::string pbtxt, words;
    policy is;
  } rows[] = {
      {"", "latest 1", {}},
      {"version_policy { latest { } }", "latest 1", {}},
      {"version_policy { latest { num_versions: 2 } }", "latest 2", {2, false, {}}},
      {"version_policy { all { } }", "all", {0, true, {}}},
      {"version_policy { specific { versions: [1, 3] } }", "specific 1 3", {0, false, {1, 3}}},
      {"version_policy { specific { versions: 4294967295 } }",
       "specific 4294967295",
       {0, false, {UINT32_MAX}}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.pbtxt);
    const auto read = read_version_policy(row.pbtxt, "m");
    REQUIRE_MESSAGE(read, read.error().message);
    CHECK(*read == row.is);
    CHECK(policy_text(*read) == row.words);
    const auto worker = parse_worker(
        fmt::format("[[workers]]\nname = \"m\"\ncommand = [\"x\"]\nversion_policy = \"{}\"\n",
                    row.words),
        "m");
    REQUIRE_MESSAGE(worker, worker.error().message);
    CHECK(worker->version_policy == row.is);
  }
  for (const auto* wrong :
       {"specific { }", "specific { versions: [] }", "specific { versions: -1 }",
        "specific { versions: 4294967296 }", "latest { num_versions: -1 }"})
    CHECK_FALSE(read_version_policy(fmt::format("version_policy {{ {} }}", wrong), "m"));
}

TEST_CASE("a model that cannot be served has a reason, and the others are served") {
  auto unreadable = directory("unreadable", "");
  unreadable.unreadable = "it has no config.pbtxt";
  const auto all = scan_repository(
      {unreadable, directory("empty", "backend: \"python\"", {}),
       directory("broken", "backend: \"python"),
       directory("renamed", "name: \"other\" backend: \"python\""),
       directory("ensemble", "platform: \"ensemble\""), directory("llm", "backend: \"vllm\""),
       directory("taken", "backend: \"python\""), directory("add", "backend: \"python\"")},
      {"taken"});
  CHECK(only(all, "unreadable").refusal == "it has no config.pbtxt");
  CHECK(only(all, "empty").refusal.find("no version") != std::string::npos);
  CHECK(only(all, "broken").refusal.find("config.pbtxt") != std::string::npos);
  CHECK(only(all, "renamed").refusal.find("'other'") != std::string::npos);
  CHECK(only(all, "ensemble").refusal.find("ensemble") != std::string::npos);
  CHECK_FALSE(only(all, "llm").refusal.empty());
  CHECK(only(all, "taken").refusal.find("nodes.toml") != std::string::npos);
  CHECK(only(all, "add").refusal.empty());
}

TEST_CASE("a path out of the repository is refused, and the other models are served") {
  const temporary t;
  const temporary outside{"outside"};
  outside.write("1/model.py", "secret");
  outside.write("config.pbtxt", "backend: \"python\"");
  const auto model = [&](const std::string& name) {
    t.write(name + "/config.pbtxt", "backend: \"python\"");
    t.write(name + "/1/model.py", "one");
  };
  for (const auto* name : {"good", "within", "file", "version", "config", "deep", "nowhere"})
    model(name);
  fs::create_symlink(outside.path, t.path / "directory");
  const auto replace = [&](const std::string& what, const fs::path& by) {
    fs::remove_all(t.path / what);
    fs::create_symlink(by, t.path / what);
  };
  replace("within/1/model.py", "../../good/1/model.py");
  replace("file/1/model.py", outside.path / "1/model.py");
  replace("version/1", outside.path / "1");
  replace("config/config.pbtxt", outside.path / "config.pbtxt");
  fs::create_directories(t.path / "deep/1/data");
  fs::create_symlink("../../../../" + outside.path.filename().string() + "/1/model.py",
                     t.path / "deep/1/data/weights");
  fs::create_symlink("not there", t.path / "nowhere/1/weights");
  const auto look = [&] {
    std::map<std::string, std::string> refusals;
    const auto all = read_model_repository(t.path);
    REQUIRE(all);
    for (const auto& d : *all)
      refusals[d.name] = d.unreadable;
    return refusals;
  };
  const auto found = look();
  CHECK(found.size() == 8);
  CHECK(found.at("good").empty());
  CHECK(found.at("within").empty());
  for (const auto* name : {"file", "version", "config", "deep", "directory"}) {
    CAPTURE(name);
    CHECK(found.at(name).find("leads out of the model repository") != std::string::npos);
  }
  CHECK(found.at("nowhere").find("leads nowhere") != std::string::npos);
  fs::create_directory_symlink(t.path, outside.path / "link"); // the repository itself
  const auto again = read_model_repository(outside.path / "link");
  REQUIRE(again);
  CHECK((*again)[3].name == "file");
  CHECK((*again)[4].unreadable.empty()); // good
}

TEST_CASE("a scan of a directory finds models, and changes of their files") {
  const temporary t;
  t.write("add/config.pbtxt", "backend: \"python\"");
  t.write("add/1/model.py", "one");
  t.write("add/007/model.py", "no version");
  t.write("odd/readme.txt", "nothing");
  t.write(".git/HEAD", "nothing");
  t.write("file", "nothing");
  const auto before = read_model_repository(t.path);
  REQUIRE(before);
  REQUIRE(before->size() == 2);
  CHECK((*before)[0].name == "add");
  CHECK((*before)[0].model.versions == std::vector<std::uint32_t>{1});
  CHECK_FALSE((*before)[1].unreadable.empty());
  const auto digest = [&] { return (*read_model_repository(t.path))[0].digests.at(1); };
  const auto first = digest();
  t.write("add/1/__pycache__/model.pyc", "what Python writes");
  CHECK(digest() == first);
  t.write("add/1/weights.bin", "more");
  const auto second = digest();
  CHECK(second != first);
  t.write("add/1/model.py", "two and longer");
  CHECK(digest() != second);
  const auto third = digest();
  t.write("add/config.pbtxt", "backend: \"python\" max_batch_size: 4");
  CHECK(digest() != third);
  CHECK_FALSE(read_model_repository(t.path / "absent"));
}
