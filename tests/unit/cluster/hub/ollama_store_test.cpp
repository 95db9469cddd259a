// The store of Ollama, and hostile manifests.
#include "cluster/hub/model_reference.hpp"
#include "cluster/hub/ollama/ollama_store.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;
namespace fs = std::filesystem;

namespace {

void put_file(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string layer(const std::string& kind, const std::string& digest) {
  return R"({"mediaType": "application/vnd.ollama.image.)" + kind + R"(", "digest": ")" + digest +
         R"("})";
}

std::string manifest(const std::string& layers) {
  return R"({"schemaVersion": 2, "layers": [)" + layers + "]}";
}

std::vector<std::string> names_in(const fs::path& store) {
  std::vector<std::string> found;
  for (const auto& model : ollama_models(store))
    found.push_back(model.name);
  return found;
}

} // namespace

TEST_CASE("a name has Ollama's defaults") {
  const auto text = [](std::string_view name) {
    const auto parsed = parse_ollama_name(name);
    return parsed ? text_of(*parsed) : std::string("none");
  };
  CHECK(text("llama3.2") == "llama3.2:latest");
  CHECK(text("llama3.2:1b") == "llama3.2:1b");
  CHECK(text("me/mine:v1") == "me/mine:v1");
  CHECK(text("hf.co/org/repo:Q4_K_M") == "hf.co/org/repo:Q4_K_M");
  CHECK(text("registry.ollama.ai/library/a:b") == "a:b");
  CHECK(parse_ollama_name("localhost:5000/a/b:c")->host == "localhost:5000");
  for (const auto* bad : {"", ":", "a:", ":b", "/", "a/", "../a", "a/../b", "a/b/c/d", "a b", "..",
                          "a:..", "a:b:c", "a:b/c/"})
    CHECK_MESSAGE(text(bad) == "none", bad);
}

TEST_CASE("a reference to Ollama's store is no path and no repository") {
  const auto r = parse_reference("ollama:llama3.2");
  REQUIRE(r);
  CHECK(r->from == model_reference::source::ollama);
  CHECK(text_of(*r) == "ollama:llama3.2:latest");
  CHECK(is_explicit_reference("ollama:llama3.2"));
  CHECK_FALSE(parse_reference("ollama:../x"));
}

TEST_CASE("a model is found by its name in the first store that has it") {
  const baton::testing::scratch_directory dir;
  const auto store = dir.path() / "models";
  put_file(store / "blobs/sha256-ab", "GGUF of ollama");
  put_file(store / "manifests/registry.ollama.ai/library/llama3.2/1b",
           manifest(layer("model", "sha256:ab") + "," + layer("template", "sha256:cd")));
  put_file(store / "manifests/hf.co/org/repo/Q4_K_M", manifest(layer("model", "sha256:ab")));
  put_file(store / "manifests/registry.ollama.ai/library/tuned/latest",
           manifest(layer("model", "sha256:ab") + "," + layer("adapter", "sha256:ab")));
  CHECK(names_in(store) ==
        std::vector<std::string>{"hf.co/org/repo:Q4_K_M", "llama3.2:1b", "tuned:latest"});
  const auto found = find_ollama_model({dir.path() / "none", store}, "llama3.2:1b");
  REQUIRE_MESSAGE(found, found.error().message);
  CHECK(found->blob == store / "blobs/sha256-ab");
  CHECK(found->bytes == 14);
  CHECK(found->has_settings);
  CHECK_FALSE(find_ollama_model({store}, "hf.co/org/repo:Q4_K_M")->has_settings);
  const auto missing = find_ollama_model({store}, "llama3.2");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
  CHECK(missing.error().message.find(store.string()) != std::string::npos);
  const auto tuned = find_ollama_model({store}, "tuned");
  REQUIRE_FALSE(tuned);
  CHECK(tuned.error().message.find("adapter (LoRA)") != std::string::npos);
}

TEST_CASE("a manifest leads to a blob of its store or to nothing") {
  const baton::testing::scratch_directory dir;
  const auto store = dir.path() / "models";
  put_file(dir.path() / "secret", "GGUF");
  put_file(store / "blobs/sha256-ab", "GGUF");
  const auto library = store / "manifests/registry.ollama.ai/library";
  int number = 0;
  const auto add = [&](const std::string& text) {
    put_file(library / fmt::format("m{}", ++number) / "latest", text);
  };
  for (const auto* digest : {"sha256:../../secret", "sha256:", "md5:ab", "sha256:AB", "sha256-ab",
                             "", "sha256:ab/../ab", "../../secret", "sha256:cd"})
    add(manifest(layer("model", digest)));
  add("");
  add("{");
  add("[]");
  add("{\"layers\": {}}");
  add("{\"layers\": [1, null, {\"mediaType\": 1}]}");
  add(std::string(100'000, '['));
  add(std::string(2u << 20, ' '));
  add(manifest(layer("model", "sha256:ab") + std::string(2u << 20, ' ')));
  std::string many = layer("model", "sha256:ab");
  for (int i = 0; i < 300; ++i)
    many += "," + layer("license", "sha256:ab");
  add(manifest(many));
  put_file(library / "too/deep/latest/x", manifest(layer("model", "sha256:ab")));
  put_file(store / "manifests/short", manifest(layer("model", "sha256:ab")));
  CHECK(names_in(store).empty());
  add(manifest(layer("model", "sha256:ab")));
  CHECK(names_in(store).size() == 1);
}
