// What each family's name and keys say about a model: read from the tiny files of
// tests/data/model/families, and from llama files with a key more.
#include "runtime/model/slice.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace baton;
using model::activation_kind;
using model::describe;
using model::description;
using model::gguf_file;
using model::rope_kind;
using model::rope_scaling_kind;

namespace {

const std::vector<std::string> files = {"qwen2", "qwen3", "llama3", "mistral", "phi3", "smollm3"};

gguf_file open(const std::string& name) {
  auto file = gguf_file::open(std::filesystem::path(BATON_SOURCE_DIR) /
                              "tests/data/model/families" / (name + ".gguf"));
  REQUIRE_MESSAGE(file, file.error().message);
  return *std::move(file);
}

description described(const std::string& name) {
  const auto d = describe(open(name));
  REQUIRE_MESSAGE(d, d.error().message);
  return *d;
}

// A llama file with the change.
template <class Change>
result<description> changed(Change change) {
  const testing::scratch_directory scratch;
  auto writer = testing::tiny_llama_writer({.layers = 2}).value();
  change(writer);
  REQUIRE(writer.write(scratch / "model.gguf"));
  const auto file = gguf_file::open(scratch / "model.gguf");
  return file ? describe(*file) : file.error();
}

// One letter a layer.
template <class Predicate>
std::string pattern(const description& d, Predicate has) {
  std::string letters;
  for (std::uint32_t layer = 0; layer < d.layer_count; ++layer)
    letters += has(layer) ? 'x' : '.';
  return letters;
}
std::string windows(const description& d) {
  return pattern(d, [&](std::uint32_t layer) { return d.has_window(layer); });
}
std::string rotations(const description& d) {
  return pattern(d, [&](std::uint32_t layer) { return d.is_rotated(layer); });
}

} // namespace

TEST_CASE("a family's stages name every tensor and count its bytes") {
  for (const auto& name : files) {
    CAPTURE(name);
    const auto file = open(name);
    const auto d = describe(file);
    REQUIRE_MESSAGE(d, d.error().message);
    std::uint64_t all = 0, elements = 0;
    for (const auto& tensor : file.tensors()) {
      all += tensor.bytes.size();
      elements += tensor.elements();
    }
    CHECK(d->parameter_count == elements);
    CHECK(model::tensors_of(*d, model::whole(*d)).size() == file.tensors().size());
    CHECK(model::stage_bytes(*d, file, model::whole(*d)).value() == all);
    std::set<std::string> names;
    std::uint64_t sum = 0;
    const auto ranges = model::partition(*d, 2);
    REQUIRE(ranges);
    for (const auto& range : *ranges) {
      const auto list = model::tensors_of(*d, range);
      CHECK(std::set(list.begin(), list.end()).size() == list.size());
      names.insert(list.begin(), list.end());
      sum += model::stage_bytes(*d, file, range).value();
    }
    CHECK(names.size() == file.tensors().size());
    // Both stages read the rope's factors; both ends a tied embedding.
    const auto factors = file.find("rope_freqs.weight");
    CHECK(sum == all + (d->has_tied_embeddings ? d->embedding_bytes : 0) +
                     (factors ? factors->bytes.size() : 0));
  }
}

TEST_CASE("qwen2 has biases and rotates halves") {
  const auto d = described("qwen2");
  CHECK(d.has_attention_bias);
  CHECK(d.rope.kind == rope_kind::neox);
  CHECK(d.has_tied_embeddings);
  CHECK_FALSE(d.has_qk_norm);
}

TEST_CASE("qwen3 has norms of heads, whose size is its own") {
  const auto d = described("qwen3");
  CHECK(d.has_qk_norm);
  CHECK(d.rope.kind == rope_kind::neox);
  CHECK(d.q_size() == 4 * d.hidden_size);
  CHECK_FALSE(d.has_attention_bias);
}

TEST_CASE("llama's rope is scaled by factors or linearly, by the newer or the older key") {
  const auto d = described("llama3");
  CHECK(d.rope.has_factors);
  CHECK(d.rope.scaling == rope_scaling_kind::none);
  const auto linear = described("mistral");
  CHECK_FALSE(linear.rope.has_factors);
  CHECK(linear.rope.scaling == rope_scaling_kind::linear);
  CHECK(linear.rope.scaling_factor == 4.0F);
  const auto older = changed([](auto& w) { w.set_f32("llama.rope.scale_linear", 2.0F); });
  REQUIRE(older);
  CHECK(older->rope.scaling == rope_scaling_kind::linear);
  CHECK(older->rope.scaling_factor == 2.0F);
}

TEST_CASE("a window of llama holds in every layer") {
  const auto d = described("mistral");
  CHECK(d.architecture == "llama");
  CHECK(d.sliding_window == 40U);
  CHECK(windows(d) == "xx");
  CHECK(windows(described("llama3")) == "..");
}

TEST_CASE("phi3 has fused projections, part of a head rotated, and a window") {
  const auto d = described("phi3");
  CHECK(d.has_fused_projections);
  CHECK(d.rope.kind == rope_kind::neox);
  CHECK(d.rope.dimension_count == d.head_size / 2);
  CHECK(d.sliding_window == 40U);
  CHECK(windows(d) == "xx");
}

TEST_CASE("smollm3 leaves every fourth layer unrotated") {
  const auto d = described("smollm3");
  CHECK(rotations(d) == "xxx.x");
  CHECK(d.rope.kind == rope_kind::normal);
  CHECK(rotations(described("llama3")) == "xx");
}
