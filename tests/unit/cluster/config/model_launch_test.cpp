// The nodes.toml of one model.
#include "cluster/config/config.hpp"
#include "cluster/config/imported/model_launch.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace fs = std::filesystem;

TEST_CASE("a model is a file that begins as GGUF does, or a directory; a nodes.toml is neither") {
  const baton::testing::scratch_directory dir;
  std::ofstream(dir.path() / "a.gguf") << "GGUF and more";
  std::ofstream(dir.path() / "nodes.toml") << "[model]\n";
  std::ofstream(dir.path() / "short") << "GG";
  CHECK(is_model(dir.path() / "a.gguf"));
  CHECK(is_model(dir.path()));
  CHECK_FALSE(is_model(dir.path() / "nodes.toml"));
  CHECK_FALSE(is_model(dir.path() / "short"));
  CHECK_FALSE(is_model(dir.path() / "missing"));
}

TEST_CASE("a model is named as its file is, in the characters allowed") {
  CHECK(name_of_model("models/SmolLM2-135M.Q4_1.gguf") == "SmolLM2-135M.Q4_1");
  CHECK(name_of_model("models/qwen 2/") == "qwen-2");
  CHECK(name_of_model("/x/a:b.gguf") == "a-b");
  CHECK(name_of_model("/x/a-Q8_0-00001-of-00003.gguf") == "a-Q8_0");
  CHECK(name_of_model("/x/" + std::string(80, 'a') + ".gguf") == std::string(64, 'a'));
  CHECK(name_of_model("..") == "model");
}

TEST_CASE("a cluster has its model's name, or one that sockets have room for") {
  CHECK(cluster_name_of("smollm2") == "smollm2");
  const std::string one = "Llama-3.2-3B-Instruct-Q4_K_M", other = "Llama-3.2-3B-Instruct-Q8_0";
  CHECK(cluster_name_of(one).size() == 24);
  CHECK(cluster_name_of(one).starts_with("Llama-3.2-3B-In-"));
  CHECK(cluster_name_of(one) == cluster_name_of(one));
  CHECK(cluster_name_of(one) != cluster_name_of(other));
}

TEST_CASE("the nodes.toml of a model is valid, also with quotes in its path") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "it's \"q\\uoted\".gguf";
  std::ofstream(file) << "GGUF";
  const auto text = config_of({.model = file,
                               .device = "cpu:0-1",
                               .http = "127.0.0.1:81",
                               .max_model_len = 512,
                               .kv_cache_bytes = 3u << 20});
  REQUIRE_MESSAGE(text, text.error().message);
  const auto config = parse_config(*text, "launch.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->models.at(0).path == file);
  CHECK(config->models.at(0).max_model_len == 512);
  CHECK(config->models.at(0).kv_cache_bytes == 3u << 20);
  CHECK(config->gateway.http == "127.0.0.1:81");
  CHECK(config->nodes.at(0).devices.size() == 1);
}

TEST_CASE("a missing model is refused, and a reference to a download says why") {
  const auto missing = config_of({.model = "/nowhere/a.gguf"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
  for (const auto* remote : {"hf:org/repo", "Qwen/Qwen3-0.6B", "https://host/a.gguf"}) {
    CAPTURE(remote);
    const auto refused = config_of({.model = remote});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("not downloaded") != std::string::npos);
  }
  const baton::testing::scratch_directory dir;
  CHECK(config_of({.model = dir.path()}).error().code == errc::bad_config);
  std::ofstream(dir.path() / "text") << "no model";
  CHECK(config_of({.model = dir.path() / "text"}).error().code == errc::bad_config);
}
