// The frequencies of scaled rotations are those of transformers (tests/data/model/ropes.json), for
// the fields of config.json and for the keys of GGUF.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/rope.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/model/changed_directory.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::rope_scaling_kind;

namespace {

json rope_goldens() {
  std::ifstream in(std::filesystem::path(BATON_SOURCE_DIR) / "tests/data/model/ropes.json");
  return json::parse(in);
}

template <class Change>
result<model::description> described_llama(Change change) {
  const scratch_directory scratch;
  auto writer = tiny_llama_writer({.layers = 1}).value();
  change(writer);
  REQUIRE(writer.write(scratch / "model.gguf"));
  const auto file = model::gguf_file::open(scratch / "model.gguf");
  return file ? model::describe(*file) : file.error();
}

} // namespace

TEST_CASE("scaled rotations have the frequencies and the magnitude of transformers") {
  for (const auto& golden : rope_goldens()) {
    CAPTURE(golden.dump());
    const auto& parameters = golden.at("rope_parameters");
    changed copy(golden.at("family").get<std::string>());
    copy.config([&](json& c) { c["rope_parameters"] = parameters; });
    CHECK(copy.refusal() == "");
    const auto d = described(copy.path());
    const auto& rope = d.ropes.front();
    const auto name =
        model::rope_factors_name(rope, golden.at("max_model_len").get<std::uint32_t>());
    const auto field = name == "rope_factors_long.weight" ? "long_factor" : "short_factor";
    std::vector<float> factors;
    if (!name.empty())
      parameters.at(field).get_to(factors);
    const auto found = model::rope_frequencies(rope, factors);
    const auto expected = golden.at("frequencies").get<std::vector<double>>();
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5)); // theirs are float32
    CHECK(rope.magnitude == doctest::Approx(golden.at("magnitude").get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("yarn's keys of GGUF have the defaults of llama.cpp") {
  const auto d = described_llama([](gguf_writer& w) {
    w.set_string("llama.rope.scaling.type", "yarn")
        .set_f32("llama.rope.scaling.factor", 4.0F)
        .set_u32("llama.rope.scaling.original_context_length", 1024);
  });
  REQUIRE_MESSAGE(d, d.error().message);
  const auto& rope = d->ropes.front();
  CHECK(rope.scaling == rope_scaling_kind::yarn);
  CHECK(rope.fast_turns == 32.0F);
  CHECK(rope.slow_turns == 1.0F);
  CHECK(rope.has_whole_borders);
  CHECK(rope.magnitude == doctest::Approx(0.1 * std::log(4.0) + 1.0));
  CHECK(d->context_length == 4096); // as scaled
  const auto scaled = described_llama([](gguf_writer& w) {
    w.set_string("llama.rope.scaling.type", "yarn")
        .set_f32("llama.rope.scaling.factor", 4.0F)
        .set_f32("llama.rope.scaling.attn_factor", 0.5F)
        .set_f32("llama.rope.scaling.yarn_beta_fast", 16.0F)
        .set_f32("llama.rope.scaling.yarn_beta_slow", 2.0F);
  });
  REQUIRE_MESSAGE(scaled, scaled.error().message);
  CHECK(scaled->ropes.front().magnitude == doctest::Approx(0.05 * std::log(4.0) + 0.5));
  CHECK(scaled->ropes.front().fast_turns == 16.0F);
  CHECK(scaled->ropes.front().slow_turns == 2.0F);
  CHECK(scaled->ropes.front().original_context_size > 0);
}

TEST_CASE("keys of yarn that this build does not compute are refused by name") {
  const auto refused = [](auto change) {
    const auto d = described_llama(change);
    return d ? std::string() : d.error().message;
  };
  CHECK(refused([](gguf_writer& w) {
          w.set_f32("llama.rope.scaling.yarn_ext_factor", 0.5F);
        }).find("yarn_ext_factor") != std::string::npos);
  CHECK(refused([](gguf_writer& w) {
          w.set_string("llama.rope.scaling.type", "yarn")
              .set_f32("llama.rope.scaling.factor", 4.0F)
              .set_f32("llama.rope.freq_base", 1.0F);
        }).find("freq_base") != std::string::npos);
  CHECK(refused([](gguf_writer& w) {
          w.set_string("llama.rope.scaling.type", "yarn")
              .set_f32("llama.rope.scaling.factor", 4.0F)
              .set_f32("llama.rope.scaling.yarn_beta_fast", -1.0F);
        }).find("yarn_beta_fast") != std::string::npos);
}
