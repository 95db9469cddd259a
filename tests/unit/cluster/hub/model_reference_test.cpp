// Names of models: repositories with quantization and revision, URLs, paths.
#include "cluster/hub/model_reference.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

using source = model_reference::source;

namespace {

model_reference parsed(std::string_view text, std::string_view endpoint = hub_endpoint_default) {
  auto r = parse_reference(text, endpoint);
  REQUIRE_MESSAGE(r, r.error().message);
  return *r;
}

} // namespace

TEST_CASE("a reference has a repository, and perhaps a quantization and a revision") {
  const auto bare = parsed("hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF");
  CHECK(bare.from == source::repository);
  CHECK(bare.repository == "Qwen/Qwen2.5-0.5B-Instruct-GGUF");
  CHECK(bare.quant.empty());
  CHECK(bare.revision == "main");
  const auto all = parsed("hf:org/repo:q8_0@refs/pr/3");
  CHECK(all.repository == "org/repo");
  CHECK(all.quant == "q8_0");
  CHECK(all.revision == "refs/pr/3");
  CHECK(text_of(all) == "hf:org/repo:q8_0@refs/pr/3");
  CHECK(text_of(bare) == "hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF");
  CHECK(parsed("org/repo:Q4_K_M").quant == "Q4_K_M");
  CHECK(parsed("hf.co/org/repo:Q4_K_M").repository == "org/repo");
  CHECK(parsed("hf:org/repo:sub/a.gguf").quant == "sub/a.gguf");
}

TEST_CASE("a URL of the hub is its repository, another one is a file") {
  const auto file =
      parsed("https://huggingface.co/org/repo/resolve/main/a.Q4_0.gguf?download=true");
  CHECK(file.from == source::repository);
  CHECK(file.repository == "org/repo");
  CHECK(file.quant == "a.Q4_0.gguf");
  CHECK(parsed("https://huggingface.co/org/repo/blob/refs%2Fpr%2F1/x/a.gguf").revision ==
        "refs/pr/1");
  CHECK(parsed("https://huggingface.co/org/repo/").repository == "org/repo");
  CHECK(parsed("http://127.0.0.1:81/o/r/resolve/v1/a.gguf", "http://127.0.0.1:81").revision ==
        "v1");
  CHECK(parsed("https://example.org/models/a.gguf").from == source::url);
  CHECK(parsed("https://huggingface.co.example.org/a.gguf").from == source::url);
}

TEST_CASE("everything else is a path") {
  for (const auto* path : {"/models/a.gguf", "./org/repo", "../a/b", "a.gguf", "models/a.gguf",
                           "examples/quickstart.toml", "models", "a/b/c", "~/x"}) {
    CAPTURE(path);
    CHECK_FALSE(is_reference(path));
    CHECK(parsed(path).from == source::path);
    CHECK(parsed(path).text == path);
  }
  CHECK(is_reference("org/repo"));
  CHECK_FALSE(is_explicit_reference("org/repo"));
  CHECK(is_explicit_reference("hf:org/repo"));
  CHECK(is_explicit_reference("https://example.org/a.gguf"));
}

TEST_CASE("a bad reference is refused, and the message has the forms") {
  for (const auto* text :
       {"hf:gpt2", "hf:", "hf:a/b/c", "hf:../etc", "hf:org/..", "hf:org/repo:", "hf:org/repo@",
        "hf:org/repo@../x", "hf:org/repo@a//b", "hf:org/re po", "hf:-org/repo", "hf:org/a--b",
        "https://example.org/a.zip", "https://huggingface.co/org/repo/resolve/main/a.bin",
        "https://huggingface.co/org/repo/resolve/main"}) {
    CAPTURE(text);
    const auto r = parse_reference(text);
    REQUIRE_FALSE(r);
    CHECK(r.error().code == errc::invalid_value);
    CHECK(r.error().message.find("hf:ORG/REPO[:QUANT][@REVISION]") != std::string::npos);
  }
}
