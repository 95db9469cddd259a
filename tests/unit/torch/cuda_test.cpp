// Goal: CUDA tensors and kernels give what CPU tensors give. Method: the tests of
// engine_torch_test.cpp on cuda:0; every case says that it was left out where there is no such
// device.
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using plugin::element;

namespace {

bool has_cuda() {
  const auto found = plugin::examine(open_engine("torch").path(), "cuda:0");
  if (!found)
    MESSAGE("skipped: ", found.error().message);
  return found.has_value();
}

} // namespace

TEST_CASE("on cuda:0 the engine keeps the contract of engines") {
  if (!has_cuda())
    return;
  const auto torch = open_engine("torch");
  for (const auto& [kind, tolerance] :
       {std::pair(element::f32, 5e-5F), {element::f16, 5e-3F}, {element::bf16, 0.03F}})
    for (const std::uint32_t experts : {0U, 4U}) {
      if (experts > 0 && kind != element::f32)
        continue; // a router that nearly ties chooses otherwise
      const auto tiny = std::make_shared<const tiny_file>(
          tiny_llama{.layers = 3, .experts = experts, .experts_used = experts / 2});
      auto settings = plugin_settings("cuda:0");
      settings.weights = kind;
      settings.kv = kind == element::f32 ? element::f16 : kind;
      CAPTURE(static_cast<int>(kind));
      conformance::check_engine(plugin_subject(torch, tiny, settings, tolerance));
    }
}

TEST_CASE("on cuda:0 engines with packed weights keep the contract") {
  if (!has_cuda())
    return;
  const auto torch = open_engine("torch");
  const auto tiny = std::make_shared<const tiny_file>(tiny_llama{.layers = 3});
  for (const auto& [form, kind, tolerance] :
       {std::tuple(plugin::quantization::fp8, element::f32, 5e-5F),
        {plugin::quantization::fp8, element::bf16, 0.03F},
        {plugin::quantization::int4, element::f32, 5e-5F}}) {
    auto settings = plugin_settings("cuda:0");
    settings.weights = kind;
    settings.kv = kind == element::f32 ? element::f16 : kind;
    settings.quantized = form;
    settings.group = 32;
    CAPTURE(static_cast<int>(form));
    conformance::check_engine(plugin_subject(torch, tiny, settings, tolerance));
  }
}

// The cases above run recorded steps where a size comes back; here are those that do not.
TEST_CASE("on cuda:0 recorded steps give what steps give that are not") {
  if (!has_cuda())
    return;
  const family_golden golden("llama3");
  std::vector<std::string> said;
  std::vector<logits_by_position> found;
  for (const bool is_eager : {true, false}) {
    plugin::config c;
    c.device = "cuda:0";
    c.blocks = 16;
    c.rows_max = 256;
    c.is_eager = is_eager;
    c.keeps_logits = true;
    c.say = [&](const std::string& line) { said.push_back(line); };
    auto engine =
        plugin::plugin_engine::load(open_engine("torch"), *golden.file, golden.description,
                                    model::whole(golden.description), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    found.push_back(run_in_steps(**engine, golden.prompt, {1}));
    CHECK(said.empty() == is_eager);
  }
  for (const auto& line : said)
    CHECK(line.starts_with("recorded a step of 1 rows"));
  for (const auto& [position, logits] : found[0])
    for (std::size_t i = 0; i < logits.size(); ++i)
      REQUIRE(std::abs(logits[i] - found[1].at(position)[i]) < 1e-4F);
}

TEST_CASE("on cuda:0 a family's logits are those of transformers") {
  if (!has_cuda())
    return;
  for (const auto& name : family_names) {
    const family_golden golden(name);
    plugin::config c;
    c.device = "cuda:0";
    c.blocks = 16;
    c.rows_max = 256;
    c.keeps_logits = true;
    auto engine =
        plugin::plugin_engine::load(open_engine("torch"), *golden.file, golden.description,
                                    model::whole(golden.description), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    for (const bool at_once : {false, true}) {
      const auto found = golden.compare(at_once ? run_at_once(**engine, golden.prompt)
                                                : run_in_steps(**engine, golden.prompt, {1}));
      MESSAGE(name, std::string(at_once ? " at once: " : " row by row: "), found.mean, ", worst ",
              found.worst);
      CHECK(found.mean < 2e-4);
      CHECK(found.worst < 2e-3);
    }
  }
}
